"""The problems that the linter knows: a code, how grave it is, and what it means."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True)
class Code:
    """A kind of problem.

    Parameters
    ----------
    severity : str
        "error": loading refuses the data, or a fit would; "warning": they load, and are probably
        not what was meant; "note": worth knowing.
    title : str
        What it is, in a few words.
    meaning : str
        Why it matters, and what to do.
    """

    severity: str
    title: str
    meaning: str


CODES = {
    "F101": Code(
        ERROR,
        "a file can't be opened",
        "One file of a set can't be read. Check its rights, and links that lead nowhere.",
    ),
    "F102": Code(
        ERROR,
        "there is nothing to read",
        "A file is empty or holds a header without rows, or no record of an attempt is left: "
        "whatever wrote it has not finished.",
    ),
    "F103": Code(
        ERROR,
        "a file is binary",
        "It is neither text nor a format that is known. Export the records as CSV in UTF-8 or "
        "Parquet.",
    ),
    "F104": Code(
        ERROR,
        "text is not UTF-8",
        "The line with the first wrong byte is named. Convert the file: `iconv -f latin1 -t "
        "utf-8 FILE > NEW`.",
    ),
    "F105": Code(
        ERROR,
        "a file is broken, cut short or incomplete",
        "A line, an archive or a document ends too early or has another shape than its format, or "
        "a file that belongs to it is missing. Other lines and files of the set are read and "
        "reported.",
    ),
    "F106": Code(
        ERROR,
        "a JSON key stands twice",
        "Programs differ in which of the two they take.",
    ),
    "F107": Code(
        ERROR,
        "the format can't be told",
        "The content fits no reader, or several: name one with `--reader`.",
    ),
    "F108": Code(
        ERROR,
        "a file is unsafe to read",
        "An archive or document that would unpack to far more than its size, leads out of its "
        "folder, or is nested too deep; a symbolic link among logs. It is not read.",
    ),
    "T201": Code(
        ERROR,
        "a column is missing",
        "The reader needs it. Where it has another name: `--column NAME=ITS_NAME`.",
    ),
    "T202": Code(
        ERROR,
        "a column is unknown",
        "A misspelt optional column would be lost in silence, so each must be known, mapped "
        "or named in `--option ignore=...`.",
    ),
    "T203": Code(
        ERROR,
        "two columns have one name",
        "Rename or remove one of them.",
    ),
    "V301": Code(
        ERROR,
        "a label can't be used",
        "Blank, with blanks around it, or with control characters: such labels make two "
        "agents of one. `--option strip=true` takes blanks off.",
    ),
    "V302": Code(
        ERROR,
        "a value can't be used",
        "An outcome, count or other value is not what the column holds. Correct it, or leave "
        "the row out.",
    ),
    "V303": Code(
        ERROR,
        "more successes than attempts",
        "`attempts` counts successes and failures together.",
    ),
    "V304": Code(
        ERROR,
        "scores need a rule",
        "Scores other than 0 and 1 are not rounded in silence: `--option threshold=0.5` says "
        "what a success is.",
    ),
    "V305": Code(
        ERROR,
        "rows disagree",
        "Rows of one task, or one agent, give it different properties (family, minutes, date).",
    ),
    "V306": Code(
        ERROR,
        "a time can't be used",
        "Human times are positive, finite minutes, or blank.",
    ),
    "V307": Code(
        ERROR,
        "a date can't be used",
        "Dates are ISO dates such as 2025-02-24, or blank.",
    ),
    "I401": Code(
        ERROR,
        "several scorers",
        "Two scores of one answer are not two attempts. Choose with `--option scorer=NAME`, "
        "or keep them apart as tasks: `--option scorer=all`.",
    ),
    "I402": Code(
        ERROR,
        "several filters",
        "Two filters of one answer are not two attempts. Choose with `--option filter=NAME`, "
        "or `--option filter=all`.",
    ),
    "I403": Code(
        ERROR,
        "several runs of an agent",
        "Either more attempts (`--option runs=all`), or a repetition of which the last counts "
        "(`--option runs=latest`).",
    ),
    "I404": Code(
        ERROR,
        "several settings of a model",
        "A model with another scaffold or effort is another agent: `--option "
        "agent_from=model,NAME`; `agent_from=model` merges them.",
    ),
    "I405": Code(
        ERROR,
        "several rows of one pair",
        "In a table of k of n each pair of agent and task has one row. Remove copies, or add "
        "rows up: `--option duplicates=sum`.",
    ),
    "I406": Code(
        ERROR,
        "an agent or a run stands twice",
        "A row of a wide table, a line of a py-irt file and a run of a log are one agent or "
        "run each.",
    ),
    "S501": Code(
        ERROR,
        "records are open",
        "Records errored, hit a limit, were refused or blank. Whether they are failures or no "
        "attempts is for you to say: `--policy`.",
    ),
    "S502": Code(
        WARNING,
        "many records of an agent have no score",
        "At least 5 % of the agent's records are not simply scored, so that the policy "
        "decides about its ability.",
    ),
    "S503": Code(
        NOTE,
        "records are left out",
        "Their number by reason, as `measurebayes data` shows it.",
    ),
    "S504": Code(
        ERROR,
        "a run has no scores",
        "It was logged without any: its samples are no failures. Score it, or leave it out: "
        "`--option without_scores=leave_out`.",
    ),
    "C601": Code(
        ERROR,
        "pieces without a common scale",
        "No chain of shared tasks leads from some agents to others, so that their abilities "
        "can't be compared; fits refuse such data.",
    ),
    "C602": Code(
        WARNING,
        "labels look alike",
        "They differ in case, blanks or punctuation only: probably one agent or task under "
        "two names.",
    ),
    "C603": Code(
        WARNING,
        "labels without attempts",
        "No attempt is counted for these agents or tasks, so that a fit knows nothing of them "
        "but the prior.",
    ),
    "C604": Code(
        ERROR,
        "too few agents or tasks",
        "Abilities and difficulties are known only relative to each other: at least two of "
        "each are needed.",
    ),
    "C605": Code(
        NOTE,
        "tasks that tell nothing",
        "All agents solved them, or none: they say little about differences.",
    ),
    "C606": Code(
        NOTE,
        "agents at few tasks",
        "Agents with attempts at fewer than five tasks have very uncertain abilities.",
    ),
    "C607": Code(
        WARNING,
        "two agents have the same results",
        "Same attempts and successes at every task: probably one agent's records under two names.",
    ),
    "C608": Code(
        NOTE,
        "properties are known for a part",
        "Models of human time leave out tasks without minutes; trends leave out agents "
        "without a date.",
    ),
    "J701": Code(
        WARNING,
        "labels of data and table don't match",
        "Rows of a joined table are of no agent or task of the data, or some of these have no row.",
    ),
    "J702": Code(
        ERROR,
        "no label of a table matches",
        "The table is of other agents or tasks, or writes their labels otherwise.",
    ),
    "J703": Code(
        ERROR,
        "table and data disagree",
        "Both know the property, with different values.",
    ),
    "R901": Code(
        ERROR,
        "the data are refused",
        "For a reason that the message gives; no code of its own.",
    ),
}
