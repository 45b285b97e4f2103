"""Errors of libraries, as messages show them."""

from deltaproduce.types.excerpts import described, one_line

RUST = (
    "Kernel error: Json error: unexpected 'g'\n"
    "   0: <unknown>\n"
    "   1: start_thread\n"
    "             at ./nptl/pthread_create.c:442:8\n"
)


def test_an_error_of_a_native_library_is_shown_in_one_line_without_its_stack() -> None:
    for text in (RUST, RUST.replace("\n   0:", "\n\nstack backtrace:\n   0:")):
        assert one_line(ValueError(text)) == "Kernel error: Json error: unexpected 'g'"
        assert described(ValueError(text)) == "ValueError: Kernel error: Json error: unexpected 'g'"


def test_other_lines_of_an_error_stay() -> None:
    text = "first\n  second: 0: x\n10: third"
    assert one_line(ValueError(text)) == "first second: 0: x 10: third"
    assert one_line(ValueError("x" * 5_000)).count("x") <= 400
    assert one_line(ValueError("a\x1bb\u202e")) == r"a\x1bb\u202e"
