// Markdown to elements. Every piece of text remembers its place in the source, so that tokens can be marked in
// it. Markup is never read as HTML, images become links, and only http, https and mailto addresses are links.
import { copyText, el } from './dom.js';

const maxDepth = 12; // of lists and quotes in each other
const marks = {
  fence: /^( {0,3})(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/,
  heading: /^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/,
  rule: /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/,
  quote: /^ {0,3}> ?/,
  item: /^( {0,8})([-*+]|\d{1,9}[.)])( +|$)/,
  columns: /^ *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/,
};

/**
 * Appends `source` from `start` on to `parent`, block by block.
 * @param put (parent, start, end): appends that part of the source as text
 * @param known blocks of the last call [{start, end, source, node}]: those that are the same are kept
 * @returns the blocks of this call, for the next one
 */
export function renderMarkdown(parent, source, start, end, put, known = []) {
  const blocks = blocksOf(linesOf(source, start, end), 0);
  const made = blocks.map((block, index) => {
    const old = known[index];
    const text = source.slice(block.start, block.end);
    // The last block may be unfinished, and its tokens may still change.
    const isSame = index < blocks.length - 1 && old?.start === block.start && old.source === text;
    return { start: block.start, end: block.end, source: text, node: isSame ? old.node : block.render(put) };
  });
  made.forEach(({ node }, index) => {
    if (parent.childNodes[index] !== node) parent.insertBefore(node, parent.childNodes[index] ?? null);
  });
  while (parent.childNodes.length > made.length) parent.lastChild.remove();
  return made;
}

/** Lines {text, at}; `at` is where the text begins in the source. */
function linesOf(source, start, end) {
  const lines = [];
  for (let at = start; at <= end;) {
    const next = source.indexOf('\n', at);
    const stop = next < 0 || next > end ? end : next;
    lines.push({ text: source.slice(at, stop), at });
    at = stop + 1;
  }
  return lines;
}

function withoutPrefix(line, count) {
  return { text: line.text.slice(count), at: line.at + count };
}

function isBlank(line) {
  return line.text.trim() === '';
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let index = 0; index < lines.length;) {
    if (isBlank(lines[index])) {
      ++index;
      continue;
    }
    const reader = readers.find((candidate) => candidate.begins(lines, index, depth));
    const { count, render } = reader.read(lines.slice(index), depth);
    const last = lines[index + count - 1];
    blocks.push({ start: lines[index].at, end: last.at + last.text.length, render });
    index += count;
  }
  return blocks;
}

function append(parent, blocks, put) {
  for (const block of blocks) parent.append(block.render(put));
  return parent;
}

function countWhile(lines, from, holds) {
  let index = from;
  while (index < lines.length && holds(lines[index], index)) ++index;
  return index;
}

const fence = {
  begins: (lines, index) => marks.fence.test(lines[index].text),
  read(lines) {
    const [, indent, ticks, language] = marks.fence.exec(lines[0].text);
    const isEnd = (line) => line.text.trim().startsWith(ticks) && line.text.trim().replaceAll(ticks[0], '') === '';
    const stop = countWhile(lines, 1, (line) => !isEnd(line));
    const inner = lines.slice(1, stop).map((line) => withoutPrefix(line, leading(line, indent.length)));
    return { count: Math.min(stop + 1, lines.length), render: (put) => codeBlock(inner, language, put) };
  },
};

function leading(line, most) {
  return Math.min(most, line.text.length - line.text.trimStart().length);
}

function codeBlock(lines, language, put) {
  const code = el('code');
  lines.forEach((line, index) => {
    const isLast = index === lines.length - 1;
    put(code, line.at, line.at + line.text.length + (isLast ? 0 : 1));
  });
  const copy = el('button', { type: 'button', class: 'small', click: () => copyText(code.textContent, copy) }, 'Copy code');
  const name = language || 'text';
  return el('div', { class: 'code' }, el('div', { class: 'code_head' }, el('span', {}, name), copy),
    el('pre', { tabindex: '0', role: 'region', 'aria-label': `Code, ${name}` }, code));
}

const heading = {
  begins: (lines, index) => marks.heading.test(lines[index].text),
  read(lines) {
    const [whole, level, text] = marks.heading.exec(lines[0].text);
    const line = { text, at: lines[0].at + whole.indexOf(text, whole.indexOf(level) + level.length) };
    // Headings of the page come above those of a reply.
    return { count: 1, render: (put) => inline(el(`h${Math.min(6, level.length + 3)}`), [line], put) };
  },
};

const rule = {
  begins: (lines, index) => marks.rule.test(lines[index].text),
  read: () => ({ count: 1, render: () => el('hr') }),
};

const quote = {
  begins: (lines, index, depth) => depth < maxDepth && marks.quote.test(lines[index].text),
  read(lines, depth) {
    const count = countWhile(lines, 0, (line) => marks.quote.test(line.text));
    const inner = lines.slice(0, count).map((line) => withoutPrefix(line, marks.quote.exec(line.text)[0].length));
    return { count, render: (put) => append(el('blockquote'), blocksOf(inner, depth + 1), put) };
  },
};

const list = {
  begins: (lines, index, depth) => depth < maxDepth && marks.item.test(lines[index].text),
  read(lines, depth) {
    const [, indent, mark] = marks.item.exec(lines[0].text);
    const isOrdered = /\d/.test(mark);
    const items = [];
    let count = 0;
    while (count < lines.length) {
      const found = marks.item.exec(lines[count].text);
      if (!found || found[1].length > indent.length + 1 || /\d/.test(found[2]) !== isOrdered) break;
      const width = found[0].length;
      const stop = endOfItem(lines, count + 1, found[1].length + found[2].length);
      const inner = lines.slice(count, stop).map((line, index) =>
        withoutPrefix(line, index === 0 ? width : leading(line, width)));
      items.push(inner);
      count = stop;
    }
    const attributes = isOrdered ? { start: parseInt(mark, 10) } : {};
    return { count, render: (put) => listOf(isOrdered ? 'ol' : 'ul', attributes, items, depth, put) };
  },
};

/** An item goes on with what is indented, and with text that begins no other block. */
function endOfItem(lines, from, indent) {
  let stop = from;
  for (let index = from; index < lines.length; ++index) {
    const line = lines[index];
    if (isBlank(line)) continue;
    const isIndented = leading(line, indent) >= Math.min(2, indent);
    if (!isIndented && (index > stop || startsBlock(line))) break;
    stop = index + 1;
  }
  return stop;
}

function listOf(tag, attributes, items, depth, put) {
  return el(tag, attributes, ...items.map((inner) => append(el('li'), blocksOf(inner, depth + 1), put)));
}

const table = {
  begins: (lines, index) => lines[index].text.includes('|') && marks.columns.test(lines[index + 1]?.text ?? ''),
  read(lines) {
    const count = countWhile(lines, 2, (line) => line.text.includes('|'));
    const row = (line, tag, put) => el('tr', {}, ...cellsOf(line).map((cell) => inline(el(tag), [cell], put)));
    const render = (put) => el('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': 'Table' },
      el('table', {}, el('thead', {}, row(lines[0], 'th', put)),
        el('tbody', {}, ...lines.slice(2, count).map((line) => row(line, 'td', put)))));
    return { count, render };
  },
};

function cellsOf(line) {
  const cells = [];
  for (const found of line.text.matchAll(/(?:\\\||[^|])+/g)) {
    const text = found[0].trim();
    const isEdge = text === '' && (found.index === 0 || found.index + found[0].length === line.text.length);
    if (!isEdge) cells.push({ text, at: line.at + found.index + found[0].indexOf(text) });
  }
  return cells;
}

const paragraph = {
  begins: () => true,
  read(lines) {
    const count = countWhile(lines, 1, (line, index) => !isBlank(line) && !startsBlock(line) && !table.begins(lines, index));
    const inner = lines.slice(0, count).map((line) => withoutPrefix(line, leading(line, line.text.length)));
    return { count, render: (put) => inline(el('p'), inner, put) };
  },
};

function startsBlock(line) {
  return [fence, heading, rule, quote, list].some((reader) => reader.begins([line], 0, 0));
}

const readers = [fence, heading, rule, quote, list, table, paragraph];

// Within a line. Repetitions are bounded, because each mark may be tried at each character.
const spans = [
  { pattern: /\\([!-/:-@[-`{-~])/y, make: (found) => [undefined, 1, 2] },
  { pattern: /(`{1,8})(?!`)([^]{0,1000}?[^`])\1(?!`)/y, make: (found) => [el('code'), found[1].length, -found[1].length, 'as it is'] },
  { pattern: /(\*\*|__)(?=\S)[^]{0,2000}?\S\1(?![*_])/y, make: () => [el('strong'), 2, -2] },
  { pattern: /\*(?=[^\s*])[^]{0,2000}?[^\s*]\*(?!\*)/y, make: () => [el('em'), 1, -1] },
  { pattern: /(?<!\w)_(?=[^\s_])[^]{0,2000}?[^\s_]_(?!\w)/y, make: () => [el('em'), 1, -1] },
  { pattern: /~~(?=\S)[^]{0,2000}?\S~~/y, make: () => [el('del'), 2, -2] },
  {
    pattern: /(!?\[)([^\]\n]{0,500})\]\(\s{0,9}<?([^\s<>)]{0,2000})>?(?:\s+"[^"\n]{0,500}")?\s{0,9}\)/y,
    make: (found) => [linkTo(found[3]), found[1].length, found[1].length + found[2].length],
  },
  { pattern: /https?:\/\/[^\s<>()[\]"'`]{0,2000}[^\s<>()[\]"'`.,;:!?*_]/y, make: (found) => [linkTo(found[0]), 0, found[0].length, 'as it is'] },
];

/** A link, or nothing for an address that a click should not run or fetch. */
function linkTo(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return null;
  return el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow' });
}

function inline(parent, lines, put) {
  const text = lines.map((line) => line.text).join('\n');
  const places = lines.flatMap((line) => Array.from({ length: line.text.length + 1 }, (_, index) => line.at + index));
  write(parent, { text, places, put }, 0, text.length);
  return parent;
}

function write(parent, piece, from, to) {
  const text = piece.text.slice(0, to);
  let plain = from;
  for (let at = from; at < to;) {
    const span = spanAt(text, at);
    if (!span) {
      ++at;
      continue;
    }
    putPiece(parent, piece, plain, at);
    const { node, start, end, stop, isLiteral } = span;
    const inside = node ?? parent;
    if (isLiteral || !node) putPiece(inside, piece, start, end);
    else write(inside, piece, start, end);
    if (node) parent.append(node);
    at = plain = stop;
  }
  putPiece(parent, piece, plain, to);
}

function spanAt(text, at) {
  if (!/[\\`*_~[!h]/.test(text[at])) return undefined;
  for (const { pattern, make } of spans) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) continue;
    const [node, start, end, literal] = make(found);
    if (node === null) continue; // stays as it is written
    const stop = at + found[0].length;
    return { node, start: at + start, end: end < 0 ? stop + end : at + end, stop, isLiteral: literal !== undefined };
  }
  return undefined;
}

/** Passes on the runs of a piece that are contiguous in the source. */
function putPiece(parent, { places, put }, from, to) {
  for (let start = from; start < to;) {
    let stop = start + 1;
    while (stop < to && places[stop] === places[stop - 1] + 1) ++stop;
    put(parent, places[start], places[stop - 1] + 1);
    start = stop;
  }
}
