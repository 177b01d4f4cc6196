"""Declarations of private documents: whom a guarantee protects, and what is public.

A declaration names two tables and the people in them. Nobody is public unless the owner says so:
class names come from the declaration or from public documents, features from a hash that reads a
document's own text, and numbers of units from the ids (docs/privacy.md, "Documents of an owner").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from private_graphs.core.bounded_files import parsed_json, read_kept
from private_graphs.core.errors import UsageError, UserError, listed, system_error_text, why_no_text
from private_graphs.core.files import names_in, sha256_of, sync
from private_graphs.core.limits import MOST_COUNT, MOST_EDGES, SMALLEST_DELTA
from private_graphs.core.private_files import hide_from_git, make_folder, private_path
from private_graphs.datasets.graph_names import free_name
from private_graphs.datasets.own_tables import text_codec, text_roles
from private_graphs.datasets.spelling import seen

DATA = Path("data/raw")
"""Folder of raw files, below the working folder."""
LINK = "link"
"""Name of the unit where all documents are public."""
_MOST_BYTES, _MOST_VALUES = 2**24, 2**17
FOLDER = "declared"
"""Folder of the declarations beside the folder of raw files: ``data/raw`` -> ``data/declared``."""


class LedgerState(BaseModel):
    """A line of the ledger, by which it is known again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lines: int = Field(ge=1)
    fingerprint: str
    """Digest of that line under the key of the ledger."""


class Declaration(BaseModel):
    """Declared tables of documents, with what is public and what may be spent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=80)
    nodes: Path
    """Table of documents: CSV or Parquet, one row per document."""
    edges: Path | None = None
    """Table of links, with the columns ``source`` and ``target``."""
    text: tuple[str, ...] = Field(min_length=1)
    label: str
    id: str = "id"
    unit: str | None = Field(default=None, min_length=1)
    """Column with the protected person of a document; None: each document is a unit."""
    max_per_unit: int = Field(default=5, ge=1, le=MOST_COUNT)
    """Documents that are kept of one unit; it bounds work, not the privacy cost."""
    public: str | None = Field(default=None, min_length=1)
    """Column that says which documents are public; None: no document of ``nodes`` is."""
    public_files: Path | None = None
    """Folder of tables of public documents, with the columns of ``nodes``."""
    vocabulary: Path | None = None
    """Public list of words: others are not read; None: all words, or those of public documents."""
    model: str | None = None
    """Public model that reads the texts, fitted on others: a folder, a file, or a name of
    ``data/sources.yaml``; None: words are read."""
    model_sha256: str | None = None
    """sha256 of the files of ``model`` when it was declared (``vectors.ModelVectors``)."""
    classes: tuple[str, ...] = ()
    """Names of the classes, which are public."""
    test_share: float | None = Field(default=None, ge=0, le=0.5)
    """Share of the units that test and do not train, where nobody is public; None: a fifth, from
    3,000 units on a tenth."""
    delta: float | None = Field(default=None, ge=SMALLEST_DELTA, lt=1)
    """δ; None: the largest power of ten that is at most 1 / (10 · number of protected units)."""
    budget: float | None = Field(default=None, gt=0, le=1e12, allow_inf_nan=False)
    """Largest ε that any unit may spend."""
    encoding: str = "utf-8"
    unknown_edges: Literal["refuse", "drop"] = "refuse"
    drop_empty: bool = False
    """Whether documents without text are left out, else they are an error."""
    source: str = "source"
    target: str = "target"
    max_edges: int | None = Field(default=None, ge=1, le=MOST_EDGES)
    """Public bound on the links, known without looking at them; where all documents are public, the
    links are protected."""
    nodes_sha256: str | None = None
    """sha256 of ``nodes`` when it was declared; None in declarations of earlier versions."""
    ledger: LedgerState | None = None
    """The ledger when it was last written for this declaration; None: it was empty."""

    @field_validator("*", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        """Refuse bytes of the command line that are no text: JSON cannot hold them."""
        for entry in value if isinstance(value, list | tuple) else (value,):
            if reason := why_no_text(str(entry)):
                raise ValueError(reason)
        return value

    @field_validator("name")
    @classmethod
    def _free_name(cls, value: str) -> str:
        return free_name(value)

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            return text_codec(value).name
        except LookupError:
            raise ValueError(
                "is no known encoding; expected one such as utf-8 or latin-1"
            ) from None

    @model_validator(mode="after")
    def _checked(self) -> Declaration:
        named: dict[str, str] = {}
        for role, column in self.roles.items():
            if column in named:
                raise ValueError(
                    f"column {column!r} is named twice ({named[column]} and {role}), expected one "
                    "role per column"
                )
            named[column] = role
        if self.unit in ("document", LINK):
            raise ValueError(
                f"unit is {self.unit!r}, which is what releases protect without such a column; "
                "rename the column, to person say"
            )
        if not all(map(seen, self.classes)):
            raise ValueError(
                f"classes are {listed(map(repr, self.classes))}, one of them without a name; "
                "expected a name for each: remove the comma too many"
            )
        if len(set(map(seen, self.classes))) < len(self.classes):
            raise ValueError(
                "classes name one class twice, perhaps in another Unicode form or with invisible "
                "characters; expected each once"
            )
        if self.classes and len(self.classes) < 2:
            raise ValueError(f"classes are {listed(self.classes)}; expected at least two")
        public = "public documents" if self.public or self.public_files else ""
        if self.vocabulary and (other := public or ("model" if self.model else "")):
            raise ValueError(
                f"vocabulary and {other} are both given, and one says which words are read: "
                "leave --vocabulary out"
            )
        if not (self.classes or self.public or self.public_files):
            raise ValueError(
                "no class names: reading them off private labels would be a query that no epsilon "
                "pays for; name them with --classes a,b,c, or declare public documents with "
                "--public COLUMN or --public-files DIR"
            )
        return self

    @property
    def roles(self) -> dict[str, str]:
        """Return role -> column of the table of documents."""
        roles = {"id": self.id, "label": self.label} | text_roles(self.text)
        options = {"unit": self.unit, "public": self.public}
        return roles | {role: column for role, column in options.items() if column}


def checked(values: dict[str, Any]) -> Declaration:
    """Return the declaration with these fields; UsageError in words of the command line."""
    try:
        return Declaration.model_validate(
            {key: value for key, value in values.items() if value is not None}
        )
    except ValidationError as error:
        from private_graphs.core.wrong_fields import wrong_fields

        lines = []
        for key, message in wrong_fields(error.errors(), Declaration.model_fields):
            flag = f"--{key.split('.')[0].replace('_', '-')}: " if key and key != "name" else ""
            lines.append(f"declare: {flag}{message}")
        raise UsageError("\n".join(lines)) from None


def folder_of(data: Path) -> Path:
    """Return the folder of declarations beside the folder of raw files."""
    return beside(data, FOLDER)


def beside(data: Path, name: str) -> Path:
    """Return a folder beside the folder of raw files, the same one from wherever that is named."""
    return (data if data.name not in ("", "..") else data.resolve()).parent / name


def declared(name: str, data: Path) -> Declaration | None:
    """Return the declaration called ``name``; None if there is none.

    Raises:
        UserError: a declaration that cannot be read, with its path.
    """
    path = folder_of(data) / f"{name}.json"
    if f"{name}.json" not in names_in(folder_of(data)):  # os.path would hide a fault of the disk
        return None
    try:
        return Declaration.model_validate(parsed_json(read_kept(path, _MOST_BYTES), _MOST_VALUES))
    except OSError as error:  # to declare again would remove what it has seen of the ledger
        raise UserError(system_error_text(error)) from error
    except ValueError as error:
        from private_graphs.core.wrong_fields import wrong_fields

        faults = error.errors() if isinstance(error, ValidationError) else ()
        known = wrong_fields(faults, Declaration.model_fields)
        why = next((": ".join(filter(None, fault)) for fault in known), error)
        raise UserError(f"{path}: cannot be read as a declaration ({why}); declare {name} again: "
                        "'private-graphs declare --help'") from error  # fmt: skip


def changes_of(spec: Declaration) -> list[str]:
    """Return a sentence if the table of documents has changed since it was declared."""
    if spec.nodes_sha256 in (None, sha256_of(spec.nodes)):
        return []
    return [
        f"{spec.nodes.name} has changed since {spec.name!r} was declared: it is read as it is now. "
        "Who was taken out keeps what was spent on them in the ledger"
    ]


def known_names(data: Path) -> list[str]:
    """Return the names of all declarations, sorted."""
    return sorted(name[:-5] for name in names_in(folder_of(data)) if name.endswith(".json"))


def needed(name: str, data: Path) -> Declaration:
    """Return the declaration called ``name``; UsageError if there is none."""
    declaration = declared(name, data)
    if declaration is None:
        from private_graphs.documents.refusals import undeclared

        raise undeclared(name, data)
    return declaration


def require_current(spec: Declaration, data: Path) -> None:
    """Raise UsageError if a declaration is another one by now than when it was read."""
    if needed(spec.name, data).model_copy(update={"ledger": spec.ledger}) != spec:
        raise UsageError(
            f"{spec.name!r} was declared again while this command read its tables; nothing was "
            "spent: run the command again"
        )


def keep(declaration: Declaration, data: Path) -> Path:
    """Write the declaration and return its path; files are stored with absolute paths."""
    path = folder_of(data) / f"{declaration.name}.json"
    files = ("nodes", "edges", "public_files", "vocabulary")
    placed: dict[str, Any] = {
        key: value.absolute() for key in files if (value := getattr(declaration, key))
    }
    model = declaration.model and Path(declaration.model).expanduser()
    if model and model.exists():
        placed |= {"model": str(model.absolute())}
    written = checked(declaration.model_dump() | placed)  # the folder's name may be no text
    make_folder(path.parent)
    hide_from_git(path.parent)
    text = written.model_dump_json(indent=2, exclude_none=True) + "\n"
    if len(text.encode()) > _MOST_BYTES or text.count(",") > _MOST_VALUES:
        raise UsageError(f"{path}: would have more classes and columns than are read again; "
                         "declare fewer")  # fmt: skip
    with private_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
    sync(path.parent)
    return path


def ledger_states(data: Path) -> dict[Path, LedgerState | None]:
    """Return what the declarations beside a ledger have seen of it; None of damaged ones.

    Raises:
        UserError: a declaration that the system does not let read, with its path.
    """
    found: dict[Path, LedgerState | None] = {}
    for name in known_names(data):
        path = folder_of(data) / f"{name}.json"
        try:
            state = parsed_json(read_kept(path, _MOST_BYTES), _MOST_VALUES).get("ledger")
            if state is not None:
                found[path] = LedgerState.model_validate(state)
        except OSError as error:
            raise UserError(system_error_text(error)) from error
        except (UserError, ValueError, TypeError, AttributeError):
            found[path] = None
    return found


def note_ledger(name: str, data: Path, state: LedgerState | None = None) -> None:
    """Write into a declaration what the ledger has become; without ``state`` what is there."""
    if spec := declared(name, data):
        keep(spec.model_copy(update={"ledger": state}) if state else spec, data)


def default_delta(n_units: int) -> float:
    """Return the largest power of ten that is at most 1 / (10 · ``n_units``), by integers."""
    return float(f"1e-{len(str(10 * n_units - 1))}")


def delta_of(spec: Declaration, protected: int) -> float:
    """Return the declared δ, or the default for this number of units."""
    return spec.delta or default_delta(protected)
