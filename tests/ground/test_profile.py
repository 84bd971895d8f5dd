"""Profiles: the shipped one loads, and whatever is wrong with one is said, all of it, in words that help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipuenv.ground.builds import Build, load_builds
from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile import (
    CallGraph,
    Holder,
    Identity,
    Profile,
    json_schema,
    load_profile,
)
from ipuenv.ground.profile_errors import ProfileError, load_toml
from ipuenv.ground.templates import expand
from ipuenv.ground.variants import default_variant

PROFILES = Path(__file__).parents[2] / "profiles"
BUILDS = load_builds(PROFILES / "builds.toml")

if TYPE_CHECKING:
    from pydantic import BaseModel, JsonValue

TABLES = {
    "target": 'package = "pkg"\nbin = "prog"',
    "run": 'args = ["--out", "{package}"]',
    "axes": 'threads = { values = [1, 2], default = 2, label = "{}threads" }',
}


def text_of(top: str = "", **tables: str) -> str:
    head = f'schema = 1\ntitle = "T"\nartifacts = "runs"\n{top}\n'
    return head + "".join(f"[{name}]\n{body}\n" for name, body in {**TABLES, **tables}.items())


def load(tmp_path: Path, text: str, builds: Mapping[str, Build] = BUILDS, name: str = "x.toml") -> Profile:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_profile(path, builds=builds, file=f"profiles/{name}")


def lines(tmp_path: Path, text: str, builds: Mapping[str, Build] = BUILDS, name: str = "x.toml") -> list[str]:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text, builds, name)
    return str(caught.value).replace(f"profiles/{name}: ", "").splitlines()


# -- what is right ----------------------------------------------------------------------------------------------------


def test_the_shipped_profile_says_what_the_seed_does_by_hand() -> None:
    profile = load_profile(PROFILES / "attention-compiler.toml", builds=BUILDS)
    texts = {**default_variant(profile).texts, "package": "/r/model.ipuexe", "device-lock": "/w/device.lock"}
    assert profile.title == "SigLIP attention compiler"
    assert expand(profile.notes, texts) == (
        "SigLIP attention compiler; batch 1; automatic plans; 16 Rayon workers; CPU samples, not IPU execution"
    )
    assert profile.artifacts == "compiler-perf/flamegraph"
    assert (profile.target.package, profile.target.bin) == ("ipu-tests", "ipu-trivial-test")
    assert " ".join(expand(arg, texts) for arg in profile.run.args) == (
        "c600-init.ipucfg --device-lock /w/device.lock --package /r/model.ipuexe "
        "--workload siglip-attention-benchmark --attention-strategy auto "
        "--attention-batch 1 --attention-products auto --inspect-exchanges"
    )
    assert {name: expand(value, texts) for name, value in profile.run.env.items()} == {"RAYON_NUM_THREADS": "16"}
    assert profile.output is not None
    assert (profile.output.path, profile.output.depends_on) == ("{package}", ("batch",))
    assert (profile.record.frequency, profile.record.call_graph) == (99, CallGraph.FP)
    assert profile.views["work"].elide[:3] == ("rayon::*", "rayon_core::*", "crossbeam_*")
    assert (profile.svg.image_width, profile.svg.min_width, profile.svg.deterministic) == (1800, 0.2, True)
    assert profile.device is not None
    assert (profile.device.lock, profile.device.holder) == ("artifacts/layout-sweep/device.lock", Holder.PROGRAM)


def test_what_a_profile_leaves_out_has_a_default(tmp_path: Path) -> None:
    profile = load(tmp_path, text_of())
    assert (profile.notes, profile.output, profile.device, profile.views) == ("", None, None, {})
    assert (profile.run.env, profile.run.timeout_s) == ({}, None)
    assert (profile.record.frequency, profile.record.call_graph) == (99, CallGraph.FP)
    assert (profile.svg.image_width, profile.svg.min_width, profile.svg.deterministic) == (1200, 0.1, True)


def test_what_a_profile_gives_beats_the_default(tmp_path: Path) -> None:
    profile = load(
        tmp_path,
        text_of(
            notes := 'notes = "n {threads} {build}"',
            run='args = ["{package}", "{run-dir}", "{workspace}"]\nenv = { A = "{{{threads}}}" }\ntimeout = 90',
            output='path = "{run-dir}/out"\nidentical = "reported"',
            record='frequency = 997\ncall-graph = "dwarf"',
            svg="image-width = 800\nmin-width = 0\ndeterministic = false",
            device='lock = "/var/lock/ipu"\nholder = "ipuenv"',
        ),
    )
    assert notes.endswith(f'"{profile.notes}"')
    assert profile.run.timeout_s == 90
    assert profile.run.env == {"A": "{{{threads}}}"}
    assert profile.output is not None
    assert (profile.output.path, profile.output.identical) == ("{run-dir}/out", Identity.REPORTED)
    assert (profile.record.frequency, profile.record.call_graph) == (997, CallGraph.DWARF)
    assert (profile.svg.image_width, profile.svg.min_width, profile.svg.deterministic) == (800, 0, False)
    assert profile.device is not None
    assert profile.device.holder is Holder.IPUENV


def test_every_profile_has_the_views_full_and_functions(tmp_path: Path) -> None:
    profile = load(tmp_path, text_of(**{"views.flat": "inline = false"}))
    assert [(name, view.inline) for name, view in profile.all_views.items()] == [
        ("full", True),
        ("functions", False),
        ("flat", False),
    ]


def test_a_stored_profile_reads_back_equal_with_its_axes_in_order() -> None:
    profile = load_profile(PROFILES / "attention-compiler.toml", builds=BUILDS)
    stored = profile.model_dump_json(by_alias=True)
    again = Profile.model_validate_json(stored)
    assert again == profile
    assert list(again.axes.by_name) == ["threads", "batch", "build"]
    assert '"image-width":1800' in stored


def test_a_stored_profile_reads_back_though_its_build_is_gone(tmp_path: Path) -> None:
    axes = f'{TABLES["axes"]}\nbuild = {{ values = ["dwarf"], default = "dwarf", label = "{{}}" }}'
    stored = load(tmp_path, text_of(axes=axes)).model_dump_json(by_alias=True)
    assert lines(tmp_path, text_of(axes=axes), builds={"flamegraph": BUILDS["flamegraph"]}) != []
    assert Profile.model_validate_json(stored).axes.by_name["build"].values == ("dwarf",)


def test_a_profile_cannot_be_changed(tmp_path: Path) -> None:
    profile = load(tmp_path, text_of())
    with pytest.raises(ValueError, match="frozen"):
        profile.title = "other"  # type: ignore[misc]


# -- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            text_of(run='arg = []\nargs = ["{package}"]'),
            "run.arg: unknown key. Did you mean 'args'? Allowed: args, env, timeout.",
        ),
        (
            text_of(svg="image_width = 3"),
            (
                "svg.image_width: unknown key. Did you mean 'image-width'? Allowed: image-width, min-width, "
                "deterministic."
            ),
        ),
        (
            text_of(output="path = '{package}'\nidentic = 1"),
            "output.identic: unknown key. Did you mean 'identical'? Allowed: path, depends-on, identical.",
        ),
        (text_of(output='path = "{package}"', run='args = "x"'), 'run.args: wanted a list, found the string "x".'),
        (
            text_of(output='path = "{package}"', run="args = []\nenv = 3"),
            "run.env: wanted a table, found the integer 3.",
        ),
        (text_of(svg="image-width = 99"), "svg.image-width: wanted at least 100, found the integer 99."),
        (text_of(svg="image-width = 100001"), "svg.image-width: wanted at most 100000, found the integer 100001."),
        (text_of(svg="min-width = -0.1"), "svg.min-width: wanted at least 0, found the number -0.1."),
        (
            text_of("zzz = 1"),
            (
                "zzz: unknown key. Allowed: schema, title, notes, artifacts, target, run, output, record, axes, "
                "views, svg, device."
            ),
        ),
        (
            text_of(**{"views.v": "inlined = true"}),
            "views.v.inlined: unknown key. Did you mean 'inline'? Allowed: inline, elide.",
        ),
        (
            text_of(**{"views.inline": "elided = []"}),
            "views.inline.elided: unknown key. Did you mean 'elide'? Allowed: inline, elide.",
        ),
        (
            text_of(target='package = "pkg"'),
            "target.bin: missing. Wanted: the package's binary that is run and recorded.",
        ),
        (text_of(record='frequency = "99"'), 'record.frequency: wanted an integer, found the string "99".'),
        (text_of(record="frequency = true"), "record.frequency: wanted an integer, found the boolean true."),
        (text_of(record="frequency = 99.5"), "record.frequency: wanted an integer, found the number 99.5."),
        (text_of(record="frequency = 0"), "record.frequency: wanted at least 1, found the integer 0."),
        (text_of(record="frequency = 100001"), "record.frequency: wanted at most 100000, found the integer 100001."),
        (text_of(record='call-graph = "lbr"'), 'record.call-graph: unknown value "lbr". Allowed: fp, dwarf.'),
        (
            text_of(record='call-graph = "Dwarv"'),
            "record.call-graph: unknown value \"Dwarv\". Did you mean 'dwarf'? Allowed: fp, dwarf.",
        ),
        (text_of(record="call-graph = 3"), "record.call-graph: unknown value 3. Allowed: fp, dwarf."),
        (text_of(svg="min-width = nan"), "svg.min-width: wanted a finite number, found the number NaN."),
        (text_of(svg="min-width = 100"), "svg.min-width: wanted less than 100, found the integer 100."),
        (text_of(svg='deterministic = "yes"'), 'svg.deterministic: wanted true or false, found the string "yes".'),
        (text_of("svg = 3"), "svg: wanted a table, found the integer 3."),
        (text_of("notes = 2026-01-01"), 'notes: wanted a string, found the date or time "2026-01-01".'),
        (text_of(run='args = "a b"'), 'run.args: wanted a list, found the string "a b".'),
        (text_of(run="args = [1]"), "run.args[0]: wanted a string, found the integer 1."),
        (text_of(run="args = []\nenv = []"), "run.env: wanted a table, found the list []."),
        (text_of(run="args = []\ntimeout = 0"), "run.timeout: wanted more than 0, found the integer 0."),
        (
            text_of(run='args = []\nenv = { "A B" = "" }'),
            "run.env.\"A B\": wanted a variable's name of letters, digits and '_'.",
        ),
        (text_of(run='args = ["a\\u0000"]'), "run.args[0]: holds a NUL character, which no process can be given."),
        (text_of('notes = "a\\nb"'), 'notes: wanted one line without control characters, found "a\\nb".'),
        (text_of(target='package = "a b"\nbin = "x"'), 'target.package: wanted a name that cargo knows, found "a b".'),
        (text_of(target='package = "a"\nbin = "-x"'), 'target.bin: wanted a name that cargo knows, found "-x".'),
        (text_of(device='lock = " "'), 'device.lock: wanted some text, found " ".'),
        (
            text_of(device='lock = "x"\nholder = "progam"'),
            "device.holder: unknown value \"progam\". Did you mean 'program'? Allowed: program, ipuenv.",
        ),
        (
            text_of(output='path = "{package}"\nidentical = true'),
            "output.identical: unknown value true. Allowed: required, reported.",
        ),
    ],
)
def test_each_fault_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert lines(tmp_path, text) == [message]


@pytest.mark.parametrize("artifacts", ["", "/abs", "a/../b", "..", ".", ".blobs/x", "a/.b", "a:b", "a/{batch}", "~/a"])
def test_a_collection_stays_below_the_artifacts(tmp_path: Path, artifacts: str) -> None:
    [line] = lines(tmp_path, text_of().replace('"runs"', f'"{artifacts}"'))
    assert line.startswith("artifacts: wanted ")
    assert line.endswith(f'found "{artifacts}".')


def test_another_version_of_the_format_is_refused(tmp_path: Path) -> None:
    text = text_of().replace("schema = 1", "schema = 2")
    assert lines(tmp_path, text) == ["schema: wanted 1, found the integer 2."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            text_of('notes = "{thread}"'),
            "notes: unknown placeholder \"{thread}\". Did you mean 'threads'? Allowed: threads, build.",
        ),
        (text_of('notes = "{run-dir}"'), 'notes: unknown placeholder "{run-dir}". Allowed: threads, build.'),
        (
            text_of(run='args = ["{pakage}"]'),
            (
                "run.args[0]: unknown placeholder \"{pakage}\". Did you mean 'package'? Allowed: threads, build, "
                "package, run-dir, workspace."
            ),
        ),
        (
            text_of(run='args = []\nenv = { N = "{threads" }'),
            "run.env.N: '{' in column 1 is never closed. Write '{{' for the brace itself.",
        ),
        (text_of(run='args = ["}"]'), "run.args[0]: '}' in column 1 closes nothing. Write '}}' for the brace itself."),
        (
            text_of(run='args = ["{device-lock}"]'),
            "run.args[0]: '{device-lock}': there is no [device] table that names the lock.",
        ),
        (
            text_of(output='path = "{package"'),
            "output.path: '{' in column 1 is never closed. Write '{{' for the brace itself.",
        ),
        (
            text_of(output='path = "out"'),
            "output.path: wanted a path that begins with '{package}' or '{run-dir}', found \"out\".",
        ),
        (
            text_of(output='path = "{run-dir}/x"'),
            "output.path: '{run-dir}' stands nowhere in [run], so the program would not write there.",
        ),
        (
            text_of(output='path = "{package}"\ndepends-on = ["thread"]'),
            "output.depends-on[0]: unknown axis \"thread\". Did you mean 'threads'? Allowed: threads.",
        ),
    ],
)
def test_templates_are_checked_when_the_profile_loads(tmp_path: Path, text: str, message: str) -> None:
    assert lines(tmp_path, text) == [message]


@pytest.mark.parametrize("run", ['args = ["{device-lock}"]', 'args = []\nenv = { L = "{device-lock}" }'])
def test_a_program_may_not_take_the_lock_that_ipuenv_holds(tmp_path: Path, run: str) -> None:
    [line] = lines(tmp_path, text_of(run=run, device='lock = "l"\nholder = "ipuenv"'))
    assert "the program would wait for ever" in line
    assert 'set device.holder to "program"' in line
    assert load(tmp_path, text_of(run=run, device='lock = "l"\nholder = "program"')).device is not None


THREADS = TABLES["axes"]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ('a = { values = [1, 2], default = 3, label = "{}" }', "axes.a.default: unknown value 3. Allowed: 1, 2."),
        (
            'a = { values = ["fast"], default = "fats", label = "{}" }',
            "axes.a.default: unknown value \"fats\". Did you mean 'fast'? Allowed: fast.",
        ),
        (
            'a = { values = [], default = 3, label = "{}" }',
            "axes.a.values: wanted at least one value, found none.",
        ),
        ('a = { values = [1, 1], default = 1, label = "{}" }', "axes.a.values[1]: 1 is listed twice."),
        (
            'a = { values = [1.5, 1], default = 1, label = "{}" }',
            "axes.a.values[0]: wanted an integer or a string, found the number 1.5.",
        ),
        (
            'a = { values = [1], default = true, label = "{}" }',
            "axes.a.default: wanted an integer or a string, found the boolean true.",
        ),
        (
            'a = { values = ["", "b"], default = "b", label = "{}" }',
            'axes.a.values[0]: wanted a value without control characters, found "".',
        ),
        (
            'a = { values = [1], default = 1, label = "a" }',
            "axes.a.label: wanted '{}' exactly once, for the value; found it 0 times in \"a\".",
        ),
        (
            'a = { values = ["x/y"], default = "x/y", label = "{}" }',
            (
                "axes.a.values[0]: its label \"x/y\" may hold only letters, digits, '.', '_' and '-', since it "
                "names a folder."
            ),
        ),
        (
            'a = { values = [1], default = 1, label = "ä{}" }',
            (
                "axes.a.values[0]: its label \"ä1\" may hold only letters, digits, '.', '_' and '-', since it "
                "names a folder."
            ),
        ),
        (
            "a = { values = [1], default = 1 }",
            ("axes.a.label: missing. Wanted: how a value reads in a variant id: text with '{}' once, for the value."),
        ),
        (
            'A_b = { values = [1], default = 1, label = "{}" }',
            "axes.A_b: wanted an axis name of small letters and digits, with '-' between words.",
        ),
        (
            'run-dir = { values = [1], default = 1, label = "{}" }',
            "axes.run-dir: '{run-dir}' already means something else. Choose another name for this axis.",
        ),
        ("", "axes: wanted at least one axis, found none."),
        (f"{THREADS}\nexcludes = []", "axes.excludes: wanted a table, found the list []. Did you mean 'exclude'?"),
        (
            f"{THREADS}\nexclude = [{{ thread = 1 }}]",
            "axes.exclude[0].thread: unknown axis. Did you mean 'threads'? Allowed: threads.",
        ),
        (f"{THREADS}\nexclude = [{{ threads = 3 }}]", "axes.exclude[0].threads: unknown value 3. Allowed: 1, 2."),
        (
            f"{THREADS}\nexclude = [{{ threads = '1' }}]",
            "axes.exclude[0].threads: unknown value \"1\". Did you mean '1'? Allowed: 1, 2.",
        ),
        (
            f"{THREADS}\nexclude = [{{}}]",
            "axes.exclude[0]: wanted at least one axis and its value, found an empty table.",
        ),
        (
            f"{THREADS}\nexclude = [{{ threads = 2 }}]",
            "axes.exclude: leaves out the default variant '2threads'. Change a default or this list.",
        ),
        (f"{THREADS}\nexclude = [{{ threads = 1 }}, {{ threads = 2 }}]", "axes.exclude: leaves no variant."),
        (f"{THREADS}\ninclude = [{{ threads = 2 }}]", "axes.include[0]: adds '2threads', which is there already."),
        (
            f"{THREADS}\ninclude = [{{ threads = 3 }}, {{ threads = 3 }}]",
            "axes.include[1]: adds '3threads', which is there already.",
        ),
        (
            f"{THREADS}\ninclude = [{{ threads = 'a b' }}]",
            (
                "axes.include[0].threads: its label \"a bthreads\" may hold only letters, digits, '.', '_' and "
                "'-', since it names a folder."
            ),
        ),
        (f"{THREADS}\ninclude = [{{ batch = 2 }}]", "axes.include[0].batch: unknown axis. Allowed: threads."),
        (f"{THREADS}\ninclude = 3", "axes.include: wanted a list, found the integer 3."),
        (
            'build = { values = ["flamegraf"], default = "flamegraf", label = "{}" }',
            (
                'axes.build.values[0]: builds.toml has no such row: unknown build "flamegraf". Did you mean '
                "'flamegraph'? Allowed: flamegraph, release, dwarf."
            ),
        ),
        (
            'build = { values = ["dwarf"], default = "dwarf", label = "{}" }\ninclude = [{ build = "dwarfs" }]',
            (
                "axes.include[0].build: unknown value \"dwarfs\". Did you mean 'dwarf'? Allowed: flamegraph, "
                "release, dwarf."
            ),
        ),
    ],
)
def test_each_fault_of_the_matrix_is_named(tmp_path: Path, axes: str, message: str) -> None:
    assert lines(tmp_path, text_of(axes=axes)) == [message]


def test_a_build_s_name_that_is_no_text_is_no_traceback(tmp_path: Path) -> None:
    axes = 'build = { values = [[1]], default = "dwarf", label = "{}" }'
    assert lines(tmp_path, text_of(axes=axes)) == [
        "axes.build.values[0]: wanted an integer or a string, found the list [1]."
    ]


def test_a_profile_with_the_axis_build_does_without_the_default_row(tmp_path: Path) -> None:
    axes = 'build = { values = ["dwarf"], default = "dwarf", label = "{}" }'
    assert (
        load(tmp_path, text_of(axes=axes), builds={"dwarf": BUILDS["dwarf"]}).axes.by_name["build"].default == "dwarf"
    )


def test_without_another_name_messages_name_the_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text_of("zzz = 1"))
    with pytest.raises(ProfileError) as caught:
        load_profile(path, builds=BUILDS)
    assert caught.value.file == str(path)


def test_a_profile_without_the_axis_build_needs_the_row_that_it_gets(tmp_path: Path) -> None:
    assert lines(tmp_path, text_of(), builds={"dwarf": BUILDS["dwarf"]}) == [
        "axes: without an axis 'build' the row 'flamegraph' is built, which builds.toml does not have."
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("views.full", "views.full: exists without being named. Choose another name for your own view."),
        ("views.functions", "views.functions: exists without being named. Choose another name for your own view."),
        (
            'views."my view"',
            "views.\"my view\": wanted a view's name of small letters and digits, with '-' between words.",
        ),
    ],
)
def test_a_view_s_name_fits_into_a_file_s(tmp_path: Path, table: str, message: str) -> None:
    assert lines(tmp_path, text_of() + f"[{table}]\ninline = true\n") == [message]


def test_a_profile_s_name_fits_into_a_file_s(tmp_path: Path) -> None:
    [line] = lines(tmp_path, text_of(), name="my profile.toml")
    assert line.startswith("wanted a file name of letters, digits, '.', '_' and '-', found \"my profile.toml\"")


def test_all_faults_of_a_file_are_named_at_once_in_its_order(tmp_path: Path) -> None:
    """A wrong table hides nothing about another, nor a wrong key about a value beside it."""
    text = text_of(
        'notes = "{treads}"',
        target='package = "p"',
        run='arg = 1\nargs = [1, "{x}"]',
        record='frequency = "99"',
        axes='a = { values = [1], default = 2, label = "{}" }\nb = { values = 3, default = 1, label = "x" }\n'
        'build = { values = ["x"], default = "x", label = "{}" }\nexclude = [{ a = 7 }]',
        device="holder = 1",
        **{"views.full": "inline = 1"},
    )
    assert [line.partition(": ")[0] for line in lines(tmp_path, text)] == [
        "notes",
        "target.bin",
        "run.args[0]",
        "run.args[1]",
        "run.arg",
        "axes.exclude[0].a",
        "axes.a.default",
        "axes.b.values",
        "axes.b.label",
        "axes.build.values[0]",
        "record.frequency",
        "device.lock",
        "device.holder",
        "views.full",
        "views.full.inline",
    ]


def test_the_error_holds_its_problems_and_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text_of("zzz = 1", record="frequency = 0"))
    error = caught.value
    assert isinstance(error, UsageError)
    assert error.exit_code == 2
    assert [problem.path for problem in error.problems] == [("zzz",), ("record", "frequency")]
    assert all(line.startswith("profiles/x.toml: ") for line in error.what.splitlines())
    assert error.hint == "correct profiles/x.toml, then run the same command again"
    assert error.__cause__ is not None


# -- the schema for editors -------------------------------------------------------------------------------------------


def _aliases(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield str(field.alias or name)


def test_the_schema_describes_every_key_of_every_table() -> None:
    schema = json_schema()
    tables: list[JsonValue] = [schema, *_items(schema["$defs"])]
    described = {}
    for table in tables:
        assert isinstance(table, dict)
        properties = table.get("properties", {})
        assert isinstance(properties, dict)
        described[table["title"]] = properties
    keys = {key for properties in described.values() for key in properties}
    assert set(_aliases(Profile)) == set(described["Profile"])
    assert {"schema", "args", "env", "timeout", "depends-on", "call-graph", "image-width", "exclude", "label"} <= keys
    assert all(isinstance(each, dict) and each.get("description") for p in described.values() for each in p.values())


def test_the_schema_refuses_unknown_keys_but_takes_any_axis() -> None:
    definitions = json_schema()["$defs"]
    assert isinstance(definitions, dict)
    for title, definition in definitions.items():
        assert isinstance(definition, dict)
        if definition["type"] == "object":
            expected = {"$ref": "#/$defs/Axis"} if title == "Axes" else False
            assert definition["additionalProperties"] == expected


def test_an_editor_accepts_the_shipped_profile_and_refuses_a_misspelt_one() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    data = load_toml(PROFILES / "attention-compiler.toml", file="shipped")
    validator = jsonschema.Draft202012Validator(json_schema())
    assert [error.message for error in validator.iter_errors(data)] == []
    assert len(list(validator.iter_errors({**data, "run": {"args": [1], "evn": {}}}))) == 2


def _items(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, dict)
    return list(value.values())
