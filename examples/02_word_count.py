"""Word counts over documents that are edited and deleted."""

from tempfile import TemporaryDirectory

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


def main(spark, location):
    store = dp.Store(spark, location, library)
    columns = ["document_id", "text", "_change_type"]

    texts = [(1, "to be or not to be"), (2, "to do"), (3, "let it be")]
    store.update({"documents": spark.createDataFrame(texts, columns[:2])})
    changes = [(2, "to do or not", "upsert"), (3, None, "delete")]
    store.update({"documents": spark.createDataFrame(changes, columns)})

    store.updates("word_counts", version=2, ordered=True).show()
    store.content("word_counts", version=1, ordered=True).show()
    store.content("word_counts", version=2, ordered=True).show()


if __name__ == "__main__":
    with TemporaryDirectory() as location, dp.local_session() as spark:
        main(spark, location)
