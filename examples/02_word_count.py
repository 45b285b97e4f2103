"""Word counts over documents that are edited and deleted."""

import deltaproduce as dp

library = dp.Pipeline("library")
documents = library.source("documents", key="document_id bigint", value="text string")


@library.producer(documents, key="word string", value="occurrences bigint")
def words(document_id, texts):
    for text in texts:
        for word in text.split():
            yield word, 1


@library.producer(words, key="word string", value="total bigint")
def word_counts(word, occurrences):
    yield word, sum(occurrences)


store = dp.Store(None, "lake/library", library)  # no Spark session, no Java

texts = {1: "to be or not to be", 2: "to do", 3: "let it be"}
rows = [{"document_id": number, "text": text} for number, text in texts.items()]
store.update({"documents": rows}, update_id="monday")

changes = [
    {"document_id": 2, "text": "to do or not"},
    {"document_id": 3, "_change_type": "delete"},
]
version = store.update({"documents": changes}, update_id="tuesday")

for row in store.updates("word_counts", version=version.number, ordered=True).to_pylist():
    print(row["_change_type"], row["word"], row["total"])
