// Requests to this server. Paths are relative, so that the page also works below a path of a proxy.

const patience = 10_000; // ms, for answers that need no model

/** Tokens of a continued text, unless the settings say how many: the server would give 16, and such a model seldom ends by itself. */
export const continuedTokens = 256;

export function urlOf(path) {
  const url = new URL(path, document.baseURI);
  // Of a page behind a proxy that asks for a password: requests must not name it, and the browser sends it anyhow.
  url.username = url.password = '';
  return url.href;
}

function headersOf(key) {
  if (/[^!-~]/.test(key)) throw Object.assign(new Error('an API key has no such characters'), { needsKey: true });
  return key ? { authorization: `Bearer ${key}` } : {};
}

/** Browsers say hardly more than that it failed. */
async function ask(path, options) {
  try {
    return await fetch(urlOf(path), options);
  } catch (failure) {
    if (failure.name === 'TimeoutError') throw new Error('the server does not answer');
    throw options.signal?.aborted ? failure : new Error('the server cannot be reached');
  }
}

async function failureOf(reply) {
  const needsKey = reply.status === 401;
  try {
    const { message, code } = (await reply.json()).error;
    if (typeof message === 'string') return Object.assign(new Error(message), { code, needsKey });
  } catch {
    // Not this server's JSON: the status has to do.
  }
  return Object.assign(new Error(`the server answered with status ${reply.status}`), { needsKey });
}

/** The models, the default one first. Fails with `needsKey` where a key is missing or wrong, with `code` "loading" too early. */
export async function listModels(key) {
  const reply = await ask('v1/models', { headers: headersOf(key), signal: AbortSignal.timeout(patience) });
  if (!reply.ok) throw await failureOf(reply);
  const data = (await reply.json().catch(() => undefined))?.data;
  if (!Array.isArray(data) || data.length === 0) throw new Error('the server lists none');
  return data;
}

/** The part of the models that is loaded, from 0 to 1. */
export async function loadProgress() {
  const reply = await ask('readyz', { signal: AbortSignal.timeout(patience) });
  return reply.ok ? 1 : (await reply.json()).progress ?? 0;
}

/** Of requests with messages, and of those with a text to continue. */
export const paths = { chat: 'v1/chat/completions', text: 'v1/completions' };

/** Whether a model takes messages; others continue a text. */
export function isChat(model) {
  return model.meta?.chat_template !== false;
}

/**
 * What to send: {path, body}.
 * @param model of the list above; one without a chat template continues the last message's text instead
 * @param messages [{role, content}]
 * @param settings as settings.js reads them
 * @param extra further fields, such as `prediction`
 */
export function requestOf(model, messages, settings, extra = {}) {
  const body = { model: model.id };
  if (isChat(model)) {
    const system = settings.system ? [{ role: 'system', content: settings.system }] : [];
    body.messages = [...system, ...messages.map(({ role, content }) => ({ role, content }))];
  } else {
    body.prompt = messages.at(-1).content;
    body.max_tokens = Math.min(continuedTokens, model.max_model_len);
  }
  for (const name of ['max_tokens', 'temperature', 'seed']) {
    if (settings[name] !== undefined) body[name] = settings[name];
  }
  const speculation = {};
  for (const name of ['drafter', 'draft_length', 'rule']) {
    if (settings[name] !== undefined) speculation[name] = settings[name];
  }
  if (Object.keys(speculation).length > 0) body.speculation = speculation;
  Object.assign(body, extra, {
    stream: true,
    stream_options: { include_usage: true },
    paceline: { trace: true, token_ids: true },
  });
  return { path: isChat(model) ? paths.chat : paths.text, body };
}

/** The chunks of a streamed reply. `signal` ends it, and the server stops computing. */
export async function* streamReply({ path, body }, key, signal) {
  const headers = { 'content-type': 'application/json', ...headersOf(key) };
  const reply = await ask(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
  if (!reply.ok) throw await failureOf(reply);
  for await (const data of eventsOf(reply.body)) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    yield chunk;
  }
  throw lost();
}

function lost() {
  return new Error('the connection was lost before the reply was complete');
}

/** The data of server-sent events; each has one line of it here. */
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(() => Promise.reject(lost()));
      if (done) return;
      const lines = (rest + value).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.startsWith('data: ')) yield line.slice('data: '.length);
    }
  } finally {
    reader.cancel().catch(() => {}); // nobody reads on
  }
}
