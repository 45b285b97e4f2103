"""The command as a process: exit codes, Ctrl-C, colours, and the time that help takes."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltaproduce.cli.app import application
from deltaproduce.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "deltaproduce.cli"]
FOR_HELP_SECONDS = 0.3
"""What help may take longer than Python alone."""

SLOW = """
import pathlib, time

import deltaproduce as dp

shop = dp.Pipeline("shop")
orders = shop.source(
    "orders", key="order_id bigint", value="customer_id bigint, amount decimal(12,2)"
)
customers = shop.source("customers", key="customer_id bigint", value="name string")


@shop.producer(customers, key="customer_id bigint", value="name string")
def names(customer_id, values):
    if pathlib.Path(SLOW).exists():
        pathlib.Path(MARK).write_text("begun")
        time.sleep(600)
    for value in values:
        yield customer_id, value
"""


def started(*args: str, folder: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # it may be ignored here
    )


def ended(*args: str, folder: Path) -> tuple[int, str, str]:
    process = started(*args, folder=folder)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_exit_codes(ran):
    """But for 0, which is below: of a run that had something to do."""
    code, out, err = ended("run", "--exit-code", folder=ran)
    assert (code, out[:13], err) == (3, "nothing to do", "")
    (ran / "data" / "customers.csv").write_text("customer_id,name\n1,a\nx,b\n")
    code, out, err = ended("run", folder=ran)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "customers.csv" in err
    assert ended("rnu", folder=ran)[0] == 2
    code, out, _ = ended("--version", folder=ran)
    assert (code, out.split()[0]) == (0, "deltaproduce")


def test_two_runs_at_once_take_a_file_once(project, call):
    both = [started("run", folder=project) for _ in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert {out.splitlines()[-1][:18] for out, _ in said} <= {
        "version 1, update,",
        "nothing to do: ver",  # it began after the other had ended
    }
    for out, err in said:
        assert "error" not in err  # what takes long has its lines there
        assert "\x1b" not in out + err  # a pipe has no colours
        assert all(line == line.rstrip() for line in out.splitlines())
    assert len(call("versions").stdout.splitlines()) == 3


def test_ctrl_c_ends_a_run_and_leaves_the_last_version(project, call, tmp_path):
    """The exit code is a shell's, a line says it, and the next run makes what was cut off."""
    mark, slow = tmp_path / "mark", tmp_path / "slow"
    places = f"SLOW, MARK = {str(slow)!r}, {str(mark)!r}\n"
    (project / "pipeline.py").write_text(places + SLOW)
    slow.touch()
    process = started("run", folder=project)
    give_up = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < give_up:
        time.sleep(0.05)
    assert mark.exists()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: all of the command's processes
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    *progress, error = err.splitlines()
    assert error.startswith("error: interrupted")
    assert {line.partition(":")[0] for line in progress} <= {"orders", "customers"}
    slow.unlink()
    assert call("versions").stdout.startswith("no versions yet")
    assert call("run").stdout.splitlines()[-1].startswith("version 1, update")


def test_help_imports_neither_spark_nor_arrow_nor_rich():
    script = (
        "import sys; from deltaproduce.cli.app import application; "
        "application()(['--help'], standalone_mode=False); "
        "print(sorted({'pyspark', 'pyarrow', 'rich', 'pandas', 'deltalake'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "[]"


def test_help_is_there_at_once(tmp_path):
    """In seconds of the processor, the least of several, since machines and their work differ."""

    def seconds(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, env=env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    alone = min(seconds(sys.executable, "-c", "pass") for _ in range(3))
    helped = min(seconds(*COMMAND, "--help") for _ in range(3))
    assert helped < alone + FOR_HELP_SECONDS


def test_only_the_verb_that_is_called_is_assembled():
    def names(*arguments: str) -> list[str]:
        return [str(one.name) for one in application(arguments).registered_commands]

    verbs = [verb.__name__ for group in VERBS.values() for verb in group]
    assert [names(verb, "--help") for verb in verbs] == [[verb] for verb in verbs]
    assert all(names(*one) == verbs for one in ((), ("--help",), ("sho",), ("--version", "show")))


def asked(words: str) -> dict[str, str]:
    """What the script of `--install-completion bash` says to a process that completes words."""
    return {
        "_TYPER_COMPLETE_TESTING": "1",
        "_DELTAPRODUCE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }


def test_names_are_completed(project, monkeypatch, capsys):
    """Verbs, stages behind the operators of a selection, and sources; by a process at last."""

    def completed(words: str) -> list[str]:
        for name, value in asked(words).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            application()(prog_name="deltaproduce")
        return capsys.readouterr().out.split()

    assert completed("deltaproduce ver") == ["versions", "verify"]
    definition = project / "pipeline.py"
    text = definition.read_text()
    definition.write_text("1 +")
    assert completed("deltaproduce show customer_") == []
    definition.write_text(text)
    assert completed("deltaproduce plan --select 2+cust")[0] == "2+customers"
    assert completed("deltaproduce forget ") == ["orders", "customers"]
    words = "deltaproduce show customer_"
    process = started(folder=project, **asked(words))
    out, _ = process.communicate(timeout=120)
    assert out.split() == completed(words) == ["customer_totals", "customer_report"]
