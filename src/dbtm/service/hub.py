"""Checkpoints in repositories of the Hugging Face hub: safetensors and JSON only, at a named revision.

Nothing of a repository is executed or unpickled. Files are checked against the manifest's sha256 when they are loaded.
"""

import importlib
import json
import os
import re
import tempfile
from pathlib import Path
from shutil import copyfile
from typing import Any

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import weights as averaged
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError

SCHEME = "hf://"
PATTERNS = ["*.json", "ema.safetensors", "ema-*.safetensors", "README.md"]  # the files that are fetched
_NAME = re.compile(r"hf://([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@([\w./-]+)")


def _library() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise UsageError("models on the hub need huggingface_hub: pip install 'dbtm[hub]'") from None


def cache() -> Path:
    """The cache folder of fetched models."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dbtm" / "hub"


def fetch(name: str) -> Path:
    """The folder of `hf://org/name@revision`. A revision is required, so that a model does not change unnoticed: a
    commit never changes, a tag or branch is up to its owner.
    """
    match = _NAME.fullmatch(name)
    if match is None or ".." in name:
        raise UsageError(f"'{name}' is not a model on the hub: use hf://org/name@revision (a commit or a tag)")
    repo, revision = match.groups()
    target = cache() / repo.replace("/", "--") / revision.replace("/", "--")
    library = _library()
    try:
        library.snapshot_download(
            repo_id=repo, revision=revision, local_dir=str(target), allow_patterns=PATTERNS, repo_type="model"
        )
    except Exception as error:  # errors of the library, the network or the disk
        raise UsageError(f"cannot fetch {name}: {_reason(error)}") from error
    return target


def _reason(error: Exception) -> str:
    """An error of the library in one line."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def save(source: Path, target: Path, text: str) -> Path:
    """Copy the files of a checkpoint that sampling needs, verified, with a model card and a new manifest."""
    if averaged.in_pieces(source):
        raise UsageError(f"{source} was written by several processes: gather it in one folder first (dbtm export)")
    needed = {"config.json", *averaged.names(source)}
    listed = checkpoint.listed(source, needed)
    small = {name for name in listed if not name.endswith(".safetensors") and name != "state.json"}
    names = sorted(needed | small)
    checkpoint.verify(source, names)
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} exists and is not empty: choose another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            copyfile(source / name, target / name)
        (target / "README.md").write_text(text, encoding="utf-8")
        manifest = {name: sha256(target / name) for name in names}
        (target / checkpoint.MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot save {target}: {error.strerror}") from error
    return target


def push(source: Path, repo: str, text: str, private: bool, token: str | None) -> str:
    """Upload a checkpoint; creates the repository if missing."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", repo):
        raise UsageError(f"'{repo}' is not a repository: use org/name")
    library = _library()
    with tempfile.TemporaryDirectory() as folder:
        saved = save(source, Path(folder) / "model", text)
        try:
            interface = library.HfApi(token=token)
            interface.create_repo(repo_id=repo, repo_type="model", private=private, exist_ok=True)
            done = interface.upload_folder(folder_path=str(saved), repo_id=repo, commit_message="Upload a dbtm model")
        except Exception as error:  # errors of the library or the network
            raise UsageError(f"cannot push to {repo}: {_reason(error)}") from error
    return str(getattr(done, "commit_url", done))
