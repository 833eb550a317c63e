"""The tokenizer that indexing and searching share, and the hashes of texts."""

import hashlib
import threading
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tamis.text.words import (
    STOP_WORDS,
    content_hash,
    for_thread,
    tag_name,
    text_hash,
    word_numbers,
    words,
)

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

# The list as the seed prints it, in the seed's order.
SEED_STOP_WORDS = [
    "a",
    "an",
    "the",
    "and",
    "or",
    "but",
    "in",
    "on",
    "at",
    "to",
    "for",
    "of",
    "with",
    "by",
    "from",
    "as",
    "is",
    "was",
    "are",
    "were",
    "been",
    "be",
    "have",
    "has",
    "had",
    "do",
    "does",
    "did",
    "will",
    "would",
    "could",
    "should",
    "may",
    "might",
    "must",
    "shall",
    "can",
    "need",
    "this",
    "that",
    "these",
    "those",
    "it",
    "its",
    "they",
    "them",
    "their",
    "he",
    "she",
    "him",
    "her",
    "his",
    "hers",
    "we",
    "us",
    "our",
    "you",
    "your",
    "i",
    "me",
    "my",
    "who",
    "what",
    "which",
    "where",
    "when",
    "how",
    "why",
    "all",
    "each",
    "every",
    "both",
    "few",
    "more",
    "most",
    "other",
    "some",
    "such",
    "no",
    "not",
    "only",
    "same",
    "so",
    "than",
    "too",
    "very",
    "just",
    "also",
    "now",
    "here",
    "there",
    "then",
]

TEXTS = st.text(max_size=200) | st.text(
    alphabet="aAbcZ09 _-.,\n\tÄäéßñЖйи東京都あア한국ﬁ™²½\u0301\u3099\u00ad", max_size=80
)


@pytest.mark.rows("R002-013", "R002-025", "C49")
def test_stop_words_are_the_seeds():
    """The printed list, all ninety-odd words of it and no other."""
    assert set(SEED_STOP_WORDS) == STOP_WORDS
    assert len(SEED_STOP_WORDS) == len(STOP_WORDS)


@pytest.mark.rows("R002-025")
@pytest.mark.parametrize("word", SEED_STOP_WORDS)
def test_a_stop_word_is_no_term_in_any_case(word):
    """Stop words carry nothing."""
    assert words(f"{word} {word.upper()} {word.title()}") == []


@pytest.mark.rows("R002-013")
@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("--- *** ...", [], id="punctuation"),
        pytest.param(
            "Running runs RUN", ["run", "run", "run"], id="stems, in order, repeated"
        ),
        pytest.param(
            "connection connected connecting",
            ["connect"] * 3,
            id="Porter's own example",
        ),
        pytest.param(
            "Café naïve RÉSUMÉ", ["cafe", "naiv", "resum"], id="accents fold, then stem"
        ),
        pytest.param("Straße STRASSE", ["strass", "strass"], id="sharp s folds to ss"),
        pytest.param("x c 7 42", ["7", "42"], id="single letters go, digits stay"),
        pytest.param(
            "v2 3d 0xff", ["v2", "3d", "0xff"], id="letters with digits stay together"
        ),
        pytest.param(
            "parse_json_data", ["pars", "json", "data"], id="underscores part"
        ),
        pytest.param(
            "getUserById", ["getuserbyid"], id="humps do not: the code lane's business"
        ),
        pytest.param(
            "e-mail, foo.bar/baz", ["mail", "foo", "bar", "baz"], id="other signs part"
        ),
        pytest.param("東京都", ["東京", "京都"], id="Han in overlapping pairs"),
        pytest.param("東", ["東"], id="a Han character alone"),
        pytest.param("ひらがな", ["ひら", "らが", "がな"], id="kana in pairs"),
        pytest.param(
            "Python入門", ["python", "入門"], id="letters beside Han stay a word"
        ),
        pytest.param(
            "東京tower見物", ["東京", "tower", "見物"], id="letters between Han"
        ),
        pytest.param(
            "한국어 문서", ["한국어", "문서"], id="Hangul by blanks, composed"
        ),
        pytest.param("Привет МИР", ["привет", "мир"], id="Cyrillic folds case"),
        pytest.param("Йод ёлка", ["иод", "елка"], id="Cyrillic accents fold"),
        pytest.param("Ελλάδα", ["ελλαδα"], id="Greek accents fold"),
        pytest.param(
            "ﬁle ① x²", ["file", "1", "x2"], id="ligatures and small figures unfold"
        ),
        pytest.param(
            "５００㎒",
            ["500mhz"],
            id="wide figures, and a sign that unfolds to capitals",
        ),
    ],
)
def test_terms(text, terms):
    """Stemmed, without stop words, and a letter alone is none."""
    assert words(text) == terms


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    "text", ["Crème brûlée", "한국어", "がぎぐ", "Йога", "Việt Nam"]
)
def test_every_normal_form_gives_the_same_terms(text, form):
    """What a keyboard, a file system and a browser write differently is one word."""
    assert words(unicodedata.normalize(form, text)) == words(text)


def test_encoded_data_is_no_term_but_a_long_sentence_without_blanks_has_all_its_pairs():
    assert words("A" * 64) == ["a" * 64]
    assert words("A" * 65) == []
    sentence = "".join(chr(0x4E00 + number) for number in range(100))
    assert words(sentence) == [sentence[at : at + 2] for at in range(99)]


@LAW
@given(TEXTS)
@example("İI\u0131")
@example("ΑΣ σς")
def test_terms_are_folded_never_blank_never_a_stop_word(text):
    for term in words(text):
        assert term
        assert term == term.casefold()
        assert not any(character.isspace() for character in term)
        assert len(term) <= 64


@LAW
@given(TEXTS, TEXTS)
def test_terms_of_two_texts_side_by_side_are_the_terms_of_both(first, second):
    """So a word cannot depend on what stands elsewhere in the text, plain ASCII or not."""
    assert words(f"{first} \n {second}") == words(first) + words(second)


@LAW
@given(TEXTS)
def test_case_does_not_matter(text):
    """Capitals of every script that has a capital for each small letter."""
    simple = "".join(
        c for c in text if c.upper().casefold() == c.casefold() and len(c.upper()) == 1
    )
    assert words(simple.upper()) == words(simple.lower())


@LAW
@given(st.lists(TEXTS, max_size=8))
def test_numbered_terms_are_the_same_terms(texts):
    """An index writes with `TermNumbers` and a search asks with `words`: they must agree."""
    numbers = word_numbers()
    for text in texts:
        assert [numbers.names[number] for number in numbers.of(text)] == words(text)
    assert len(set(numbers.names)) == len(numbers.names)


def test_threads_tokenize_alike():
    """A stemmer is not safe to share; each thread has its own."""
    text = "connections running authentication 東京都 café " * 50
    expected = words(text)
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(words(text))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


@pytest.mark.rows("C73")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a b", "a  b", True),
        ("a b", "a\n\tb\n", True),
        ("a b", "a\u00a0b", True),
        (" a", "a", True),
        ("ab", "a b", False),
        ("a b", "A b", False),
        ("", " \n", True),
    ],
)
def test_text_hash_sees_no_white_space_but_everything_else(one, other, same):
    """Copies that differ in white space alone are the same text; case is a difference."""
    assert (text_hash(one) == text_hash(other)) is same


@pytest.mark.rows("C73")
def test_text_hash_is_blake2b():
    """No MD5, so it works where that is switched off."""
    assert text_hash(" a\n b ") == hashlib.blake2b(b"a b", digest_size=16).digest()
    assert (
        content_hash(b" a\n b ") == hashlib.blake2b(b" a\n b ", digest_size=16).digest()
    )


@pytest.mark.rows("C73")
@LAW
@given(TEXTS, st.sampled_from([" ", "\n", "\t ", "\r\n"]))
def test_text_hash_law(text, blank):
    assert text_hash(blank.join(text.split()) + blank) == text_hash(text)


@pytest.mark.rows("C102", "X3")
@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Draft", "draft"), ("#Draft", "draft"), ("  # draft ", "draft"), ("##a", "a"), ("C#", "c#"),
        ("area/Work", "area/work"), ("ÉTÉ", "été"), ("#", ""), ("", ""),
    ],
)  # fmt: skip
def test_tag_names(written, name):
    """Tags compare without case, and without the sign that notes write before them."""
    assert tag_name(written) == name


@LAW
@given(TEXTS)
def test_a_tag_name_names_itself(text):
    assert tag_name(tag_name(text)) == tag_name(text)


@pytest.mark.parametrize("word", ["a" * 65, "東" * 65])
def test_long_words_are_not_remembered(word):
    numbers = word_numbers()
    assert [numbers.names[number] for number in numbers.of(word)] == words(word)
    assert word not in numbers
    assert word not in for_thread.terms
    assert words("b" * 64) == ["b" * 64]
    assert "b" * 64 in for_thread.terms
