"""Logs that are damaged or made to harm: each is refused with what was found, and where."""

from __future__ import annotations

import gzip
import json
import os
import zipfile

import invented_logs as invent
import pytest

import measurebayes as mb
from measurebayes.data import archive, files, jsontext


def refused(path, *words, **options):
    with pytest.raises(mb.InputError) as caught:
        mb.load(path, **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert caught.value.where
    return caught.value


def a_log(path, **other):
    samples = [invent.inspect_sample(i, "CI"[i % 2]) for i in range(4)]
    return invent.write_eval(path, invent.inspect_header(), samples, **other)


def with_member(path, name, content, **info):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as opened:
        member = zipfile.ZipInfo(name)
        member.compress_type = zipfile.ZIP_DEFLATED
        for key, value in info.items():
            setattr(member, key, value)
        opened.writestr(member, content)
    return path


# ----- archives


def test_zip_bomb(tmp_path):
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("header.json", json.dumps(invent.inspect_header()))
        opened.writestr("summaries.json", b" " * (archive.MAX_SMALL + 10))
    assert path.stat().st_size < 200_000
    refused(path, "zip bomb", "64 MiB")
    # a member that states a small size and unpacks to a large one is cut off by the limit alone
    content = path.read_bytes()
    stated = (archive.MAX_SMALL + 10).to_bytes(4, "little")
    assert content.count(stated) == 2
    path.write_bytes(content.replace(stated, (100).to_bytes(4, "little")))
    refused(path, "can't be read")


def test_zip_bomb_in_zstandard(tmp_path):
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b" " * (archive.MAX_SMALL + 10))
    packed = sink.getvalue().to_pybytes()
    with pytest.raises(mb.InputError, match="come out of a member"):
        archive._from_zstandard(packed, archive.MAX_SMALL, "here")


def test_gzip_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_SMALL", archive.MIB)
    path = tmp_path / "a.json.gz"
    document = {**invent.inspect_header(), "samples": [], "fill": " " * (archive.MAX_SMALL + 10)}
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 9))
    refused(tmp_path, "more than 1 MiB")


@pytest.mark.parametrize("name", ["../x.json", "/etc/x.json", "a/../../x.json", "C:\\x.json"])
def test_paths_that_leave_the_archive(name, tmp_path):
    refused(with_member(a_log(tmp_path / "a.eval"), name, "{}"), "a path that leaves it", name[-6:])
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.write(a_log(tmp_path / "b.eval"), "b.eval")
    refused(with_member(path, name, "{}"), "a path that leaves it")


def test_symbolic_links(tmp_path):
    link = 0o120777 << 16
    path = with_member(a_log(tmp_path / "a.eval"), "x.json", "/etc/passwd", external_attr=link)
    refused(path, "symbolic link", "x.json")
    folder = tmp_path / "logs"
    folder.mkdir()
    good = a_log(folder / "a.eval")
    (folder / "b.eval").symlink_to(good)
    refused(folder, "symbolic link", "b.eval")
    refused(folder / "*.eval", "symbolic link")
    (folder / "b.eval").unlink()
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    refused(folder, "symbolic link", "loop")
    refused(folder / "*" / "a.eval", "symbolic link", "loop")
    (folder / "loop").unlink()
    assert mb.load(folder / "*").equals(mb.load(good))
    (tmp_path / "way").symlink_to(folder, target_is_directory=True)
    assert mb.load(tmp_path / "way" / "*.eval").equals(mb.load(good))
    os.mkfifo(folder / "pipe.json")
    refused(folder, "no file", "pipe.json")
    # a link that the user names is meant
    named = tmp_path / "named.eval"
    named.symlink_to(good)
    assert mb.load(named).equals(mb.load(good))


def test_damaged_archives(tmp_path):
    content = a_log(tmp_path / "a.eval").read_bytes()
    path = tmp_path / "cut.eval"
    path.write_bytes(content[: len(content) // 2])
    refused(path, "can't be read to its end", "cut short")
    at = content.find(b"summaries.json", content.find(b"_journal/summaries/2.json") + 30) + 20
    path.write_bytes(content[:at] + b"\xff\xff\xff" + content[at + 3 :])
    refused(path, "can't be read to its end")
    encrypted = bytearray(content)
    encrypted[content.rfind(b"header.json") - 46 + 8] |= 1
    path.write_bytes(encrypted)
    refused(path, "encrypted")
    path.write_bytes(b"PK\x03\x04 and no more")
    refused(path, "can't be read to its end")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as opened:
        opened.writestr("word/document.xml", "<a/>")
    refused(tmp_path / "other.zip", "there is no log in it")


def test_a_name_twice_in_an_archive_of_logs(tmp_path):
    path = tmp_path / "logs.zip"
    content = a_log(tmp_path / "a.eval").read_bytes()
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("a.eval", content)
        with pytest.warns(UserWarning, match="Duplicate name"):
            opened.writestr("a.eval", content)
    refused(path, "'a.eval' twice")


# ----- JSON


def in_json(folder, text):
    path = folder / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_deep_json(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    header = json.dumps(invent.inspect_header())
    refused(in_json(tmp_path, header[:-1] + ',\n"samples": ' + deep + "}"), "nested too deep")
    refused(in_json(tmp_path, '{"eval":\n' + deep + "}"), "reader=", "fits no reader")
    path = tmp_path / "a.eval"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("header.json", header)
        opened.writestr("summaries.json", '[{"id": 1, "epoch": 1, "x": ' + deep + "}]")
    refused(path, "nested too deep", "summaries.json")


def test_nan_and_infinity_in_json(tmp_path):
    sample = invent.inspect_sample(1, float("inf"))
    other = invent.inspect_sample(2, "C")
    path = invent.write_inspect_json(tmp_path / "a.json", invent.inspect_header(), [sample, other])
    assert "Infinity" in path.read_text()
    refused(path, "inf", "finite number")
    sample["scores"]["match"]["value"] = float("nan")
    invent.write_inspect_json(path, invent.inspect_header(), [sample, other])
    refused(path, "1 errored", "policy")
    sample = {**other, "epoch": float("nan")}
    invent.write_inspect_json(path, invent.inspect_header(), [sample])
    refused(path, "'epoch' is nan")


def test_encodings(tmp_path):
    text = json.dumps(
        {**invent.inspect_header(), "samples": [invent.inspect_sample("é")]}, indent=1
    )
    text = text.replace("\\u00e9", "é")
    good = mb.load(in_json(tmp_path, text))
    assert good["task"].values.tolist() == ["suite/é"]
    marked = mb.load(in_json(tmp_path, text.encode("utf-8-sig")))
    assert marked.equals(good)
    refused(in_json(tmp_path, text.encode("latin-1")), "not UTF-8", "iconv")
    refused(in_json(tmp_path, text.encode("utf-16")), "UTF-16")
    folder = tmp_path / "logs"
    folder.mkdir()
    in_json(folder, text.encode("latin-1"))
    refused(folder, "not UTF-8", "a.json")


def test_cut_and_broken_json(tmp_path):
    document = {**invent.inspect_header(), "samples": [invent.inspect_sample(1)]}
    text = json.dumps(document, indent=1)
    for cut in (len(text) // 2, len(text) - 2, text.index('"plan"') + 3):
        refused(in_json(tmp_path, text[:cut]), "not complete JSON", "a.json")
    refused(in_json(tmp_path, text + "{}"), "text follows")
    refused(in_json(tmp_path, text.replace('"epoch": 1', '"id": 2', 1)), "'id' stands twice")
    refused(in_json(tmp_path, text.replace('"version"', '"status"', 1)), "'status' stands twice")
    refused(in_json(tmp_path, ""), "empty")
    with pytest.raises(mb.InputError, match="empty"):
        files.single(in_json(tmp_path, " \n")).content()


def test_shapes_that_no_inspect_log_has(tmp_path):
    def one(header=None, **sample):
        samples = [invent.inspect_sample(1) | sample]
        header = header or invent.inspect_header()
        return invent.write_inspect_json(tmp_path / "a.json", header, samples)

    refused(one(id=None), "no id")
    refused(one(epoch=-1), "'epoch' is -1")
    refused(one(epoch=2**40), "'epoch' is")
    refused(one(scores={"m": {"value": ["C", "I"]}}), "can't be read")
    refused(one(invent.inspect_header(model="")), "eval.model")
    refused(one(invent.inspect_header(task=3)), "eval.task")
    refused(one(invent.inspect_header(created=3)), "eval.created")
    refused(one({**invent.inspect_header(), "eval": [1]}), "has no eval")


def test_first_keys_of_a_beginning():
    text = b'{"a": {"x": [1, 2]}, "b": "' + b"y" * 50
    assert jsontext.first_keys(text, "here")[0] == ["a", "b"]
    assert jsontext.first_keys(text, "here")[1] is not None
    assert jsontext.first_keys(b'[{"a": 1}, {"b": 1}]', "here") == (["a"], None)
    assert jsontext.first_keys(b"[1]", "here") == ([], None)
    for nothing in (b"", b"{", b"x", b"\xff\xfe{"):
        assert jsontext.first_keys(nothing, "here")[0] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.eval", b""),
        ("b.eval", b"not a zip"),
        ("b.json", b" "),
        ("b.json", '{"eval": 1}'.encode("utf-16")),
        ("b.json", b'{"version": 2, "st'),
        ("b.jsonl", b'{"doc_id": 1, "doc": {"a"'),
    ],
)
def test_no_damaged_log_is_left_out_in_silence(name, content, tmp_path):
    a_log(tmp_path / "a.eval")
    (tmp_path / name).write_bytes(content)
    refused(tmp_path, name)


# ----- folders and patterns


@pytest.mark.parametrize("reader", ["inspect", "lm_eval", "helm", "every_eval_ever", "metr_yaml"])
def test_a_named_reader_says_that_its_logs_are_not_there(reader, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("agent,task,success\na,b,1\n")
    assert refused(path, "no log of this format" if reader != "metr_yaml" else "csv", reader=reader)
    (tmp_path / "x.json").write_text('{\n"a": 1}')
    refused(tmp_path, "no log of this format" if reader != "metr_yaml" else "logs", reader=reader)


def test_folders_and_patterns(tmp_path):
    refused(tmp_path, "there is no log in it")
    (tmp_path / "README.txt").write_text("hello")
    refused(tmp_path, "there is no log in it", "README.txt")
    refused(tmp_path / "*.eval", "no file fits the pattern", "*.eval")
    refused(tmp_path / "none", "no such file")
    a_log(tmp_path / "a.eval")
    (tmp_path / ".hidden.eval").write_text("no log")
    (tmp_path / "manifest.json").write_text(json.dumps({"a.eval": {"status": "success"}}))
    runs = mb.load(tmp_path)
    assert int(runs["attempts"].sum()) == 4
    # a file whose name looks like a pattern is that file
    assert mb.load(a_log(tmp_path / "log[1].eval")).equals(runs)


def test_number_of_files_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text("{}")
    refused(tmp_path, "more than 2 logs")


def test_long_lines_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE", 1000)
    invent.write_lm_eval(tmp_path, "ann")
    path = next(tmp_path.glob("samples*"))
    path.write_text(path.read_text() + '{"doc_id": 1, "x": "' + "y" * 2000 + '"}\n')
    refused(tmp_path, "too long", "line 4")
