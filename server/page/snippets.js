// A request as a program that sends it. The API key is never part of it: it comes from PACELINE_API_KEY.
import { paths, urlOf } from './api.js';
import { byId, copyText } from './dom.js';

/** Fields that both calls of the openai package take by name; all others go into `extra_body`. */
const openaiFields = ['model', 'messages', 'prompt', 'max_tokens', 'temperature', 'seed', 'stream', 'stream_options'];

function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The body comes from standard input, because Linux takes no argument above 128 KiB. */
export function curlOf({ path, body }, hasKey) {
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $PACELINE_API_KEY"` : '';
  const data = JSON.stringify(body, null, 2); // none of its lines is EOF
  return `curl -N ${shellQuoted(urlOf(path))} \\
  -H 'Content-Type: application/json'${key} \\
  --data-binary @- <<'EOF'
${data}
EOF
`;
}

/** JSON as a Python literal; its strings are Python strings as well. */
function pythonLiteral(value, indent) {
  const deeper = `${indent}    `;
  if (value === null || typeof value === 'boolean') return { true: 'True', false: 'False', null: 'None' }[value];
  if (Array.isArray(value)) return `[\n${value.map((one) => deeper + pythonLiteral(one, deeper)).join(',\n')},\n${indent}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const rows = Object.entries(value).map(([name, one]) => `${deeper}${JSON.stringify(name)}: ${pythonLiteral(one, deeper)}`);
  return `{\n${rows.join(',\n')},\n${indent}}`;
}

export function pythonOf({ path, body }, hasKey) {
  const isChat = path === paths.chat;
  const isNamed = (name) => openaiFields.includes(name) || (isChat && name === 'prediction');
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !isNamed(name)));
  const named = Object.entries(body).filter(([name]) => isNamed(name));
  const rows = [...named, ['extra_body', extra]].map(([name, value]) => `    ${name}=${pythonLiteral(value, '    ')},\n`);
  const key = hasKey ? 'os.environ["PACELINE_API_KEY"]' : '"unused"';
  const text = isChat ? 'chunk.choices[0].delta.content or ""' : 'chunk.choices[0].text';
  return `${hasKey ? 'import os\n\n' : ''}from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(urlOf('v1'))}, api_key=${key})
stream = client.${isChat ? 'chat.completions' : 'completions'}.create(
${rows.join('')})
for chunk in stream:
    if chunk.choices:
        print(${text}, end="", flush=True)
`;
}

export function javascriptOf({ path, body }, hasKey) {
  const key = hasKey ? ', authorization: `Bearer ${process.env.PACELINE_API_KEY}`' : '';
  const text = path === paths.chat ? 'delta?.content' : 'text';
  return `const reply = await fetch(${JSON.stringify(urlOf(path))}, {
  method: 'POST',
  headers: { 'content-type': 'application/json'${key} },
  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}),
});
if (!reply.ok) throw new Error(await reply.text());
const decoder = new TextDecoder();
let rest = '';
let answer = '';
for await (const bytes of reply.body) {
  const lines = (rest + decoder.decode(bytes, { stream: true })).split('\\n');
  rest = lines.pop();
  for (const line of lines) {
    if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
    const event = JSON.parse(line.slice(6));
    if (event.error) throw new Error(event.error.message);
    answer += event.choices[0]?.${text} ?? '';
  }
}
console.log(answer);
`;
}

const languages = { curl: curlOf, python: pythonOf, javascript: javascriptOf };

/** Opens the dialog with the request. */
export function showSnippets(request, hasKey) {
  const dialog = byId('snippets');
  const write = () => {
    const language = dialog.querySelector('input[name=language]:checked').value;
    byId('snippet').textContent = languages[language](request, hasKey);
  };
  dialog.onchange = write;
  byId('copy_snippet').onclick = () => copyText(byId('snippet').textContent, byId('copy_snippet'));
  write();
  dialog.showModal();
}
