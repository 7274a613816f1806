// node compile.mjs PYODIDE SOURCE TARGET: compile the Python files of an archive by the Python that will run them.
import fs from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, source, target] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: `${folder}/` });
python.FS.writeFile("/source.tar.gz", new Uint8Array(fs.readFileSync(source)));
python.runPython(`
import compileall, py_compile, tarfile

with tarfile.open("/source.tar.gz") as archive:
    archive.extractall("/library", filter="data")
# The time stamps of files mean nothing in an archive.
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
if not compileall.compile_dir("/library", quiet=2, invalidation_mode=mode, stripdir="/library"):
    raise SystemExit("a module does not compile")

def plain(entry):
    entry.mtime = entry.uid = entry.gid = 0
    return entry

with tarfile.open("/target.tar.gz", "w:gz", format=tarfile.USTAR_FORMAT) as archive:
    archive.add("/library", ".", filter=plain)
`);
fs.writeFileSync(`${target}.part`, python.FS.readFile("/target.tar.gz"));
fs.renameSync(`${target}.part`, target);
