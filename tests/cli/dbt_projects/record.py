"""Records what dbt makes of the projects beside this file: `python record.py DBT [PROJECT …]`.

DBT is the path of its command, with dbt-duckdb in the same environment. A PROJECT is a name, or the
whole path of a folder. A record is the manifest, without what nobody reads, and the rows of all
tables.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NODE = {
    *("name", "resource_type", "alias", "identifier", "package_name", "original_file_path"),
    *("relation_name", "raw_code", "compiled_code", "database", "schema", "description", "columns"),
    *("config", "tags", "depends_on", "language", "source_name", "meta", "source_meta", "version"),
    *("latest_version", "test_metadata", "attached_node", "column_name", "group", "checksum"),
    *("model", "given", "expect", "overrides"),
}
SECTIONS = "nodes", "sources", "unit_tests", "exposures", "metrics", "groups"
MACRO = "name", "package_name", "macro_sql"
COLUMN = "name", "data_type", "description"
OMITTED = None, "", [], {}
ROWS = """
import datetime, decimal, json, sys, duckdb
def plain(value):
    if isinstance(value, decimal.Decimal):
        return float(value)
    known = isinstance(value, (bool, int, float, str, type(None)))
    return value if known else str(value)
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    tables = connection.sql(
        "SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL").fetchall()
    made = {}
    for schema, name in tables:
        found = connection.sql(f'SELECT * FROM "{schema}"."{name}" ORDER BY ALL')
        rows = [[plain(value) for value in row] for row in found.fetchall()]
        made[f"{schema}.{name}"] = {"columns": found.columns, "rows": rows}
    print(json.dumps(made))
"""


def trimmed(manifest: dict) -> dict:
    """Return a manifest with what is read of it, and the macros that its nodes may call."""
    kept = {section: {} for section in SECTIONS}
    for section in SECTIONS:
        for id, one in manifest.get(section, {}).items():
            node = {key: one[key] for key in NODE if one.get(key) not in OMITTED}
            if "columns" in node:
                node["columns"] = {
                    name: {key: column[key] for key in COLUMN if column.get(key)}
                    for name, column in node["columns"].items()
                }
            kept[section][id] = node
    metadata = ("dbt_schema_version", "dbt_version", "project_name", "adapter_type")
    texts = [one.get("raw_code", "") for one in kept["nodes"].values()]
    return {
        "metadata": {key: manifest["metadata"][key] for key in metadata},
        **kept,
        "macros": called(manifest["macros"], " ".join(texts)),
    }


def called(macros: dict, text: str) -> dict:
    """Return the macros that a text names, with those that they name, through dispatch too."""
    waiting, kept = set(re.findall(r"\w+", text)), {}
    seen = set()
    while waiting:
        word = waiting.pop()
        seen.add(word)
        for id, one in macros.items():
            own = one["name"].split("__")[-1]
            if own == word and id not in kept and "materialization" not in one["name"]:
                kept[id] = {key: one[key] for key in MACRO}
                waiting |= set(re.findall(r"\w+", one["macro_sql"])) - seen
    return {id: one for id, one in sorted(kept.items()) if called_without_database(one)}


def called_without_database(macro: dict) -> bool:
    return not re.search(r"adapter\.(?!dispatch|quote|type)|statement\(", macro["macro_sql"])


def record(dbt: Path, project: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        made = Path(place, project.name)
        shutil.copytree(project, made, ignore=shutil.ignore_patterns("target"))
        silent = {**os.environ, "DO_NOT_TRACK": "1"}
        for command in ("seed", "build"):
            subprocess.run([dbt, command], cwd=made, check=True, env=silent)
        manifest = json.loads((made / "target/manifest.json").read_text())
        rows = subprocess.run(
            [dbt.parent / "python", "-c", ROWS, next(made.glob("*.duckdb"))],
            check=True,
            capture_output=True,
        ).stdout
    for name, value in ("manifest", trimmed(manifest)), ("tables", json.loads(rows)):
        path = project / "target" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    for name in sys.argv[2:] or [one.name for one in HERE.iterdir() if one.is_dir()]:
        record(Path(sys.argv[1]), HERE / name)
