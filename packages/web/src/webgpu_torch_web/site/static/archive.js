// Unpack a tar.gz: [path, bytes] of each file, which share the archive's memory.
const decoder = new TextDecoder();

function text(bytes) {
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}

export async function inflate(stream) {
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

export async function unpack(stream) {
  const bytes = await inflate(stream);
  const files = [];
  let at = 0;
  while (at < bytes.length && bytes[at]) {
    const field = (start, length) => text(bytes.subarray(at + start, at + start + length));
    const [name, size, type, prefix] = [field(0, 100), parseInt(field(124, 12), 8), field(156, 1), field(345, 155)];
    at += 512;
    if (type === "0") files.push([prefix ? `${prefix}/${name}` : name, bytes.subarray(at, at + size)]);
    at += Math.ceil(size / 512) * 512;
  }
  return files;
}

// Write files into Python's file system, which takes their memory over.
export function install(files, FS, root) {
  const made = new Set();
  for (const [name, data] of files) {
    const path = `${root}/${name}`;
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (!made.has(folder)) FS.mkdirTree(folder);
    made.add(folder);
    FS.writeFile(path, data, { canOwn: true });
  }
}
