// Edit this file: the old file is the request's prediction, so the parts that stay are drafted from it.
import { requestOf } from './api.js';
import { actOnEnter, announce, byId, largest, setHidden } from './dom.js';
import { keepDraft } from './draft.js';
import { Reply } from './reply.js';
import { ReplyView } from './reply_view.js';

const rules = 'You edit files. Reply with the whole new file in one code block and nothing else. Change only what is asked for.';

/** A fence for a code block with this file: longer than all runs of backticks in it. */
function fenceFor(file) {
  const runs = [...file.matchAll(/`+/g)].map(([run]) => run.length);
  return '`'.repeat(Math.max(3, largest(runs) + 1));
}

/** The messages and the prediction of an edit. */
export function editOf(file, change) {
  const fence = fenceFor(file);
  const messages = [{ role: 'user', content: `${change}\n\n${fence}\n${file.replace(/\n$/, '')}\n${fence}` }];
  return { messages, extra: { prediction: { type: 'content', content: file } } };
}

/**
 * The first line that closes a block whose fence has `length` backticks, or -1. A fence with a name opens a block
 * within it, a bare one closes what is open.
 */
function closeOf(lines, length) {
  let depth = 1;
  return lines.findIndex((line) => {
    const [, ticks, name] = /^(`*)([^`]*)$/.exec(line) ?? ['', '', ''];
    if (ticks.length < length) return false;
    depth += name.trim() ? 1 : -1;
    return depth === 0;
  });
}

/**
 * The file in a reply to the edit of `file`: what its first code block contains, or all of it. Blocks within that one
 * are counted, so that it ends where it is closed, whatever follows. They cannot be counted where the file has bare
 * ones as long as the reply's fence, or where nothing closes the block: then it ends at the last bare fence.
 */
export function fileIn(answer, file) {
  const lines = answer.split('\n');
  const begin = lines.findIndex((line) => /^`{3,}[^`]*$/.test(line));
  if (begin < 0) return answer;
  const { length } = /^`+/.exec(lines[begin])[0];
  const rest = lines.slice(begin + 1);
  const isBare = (line) => /^`+\s*$/.test(line) && line.trimEnd().length >= length;
  const close = closeOf(file.split('\n'), length) < 0 ? closeOf(rest, length) : -1;
  const end = close < 0 ? rest.findLastIndex(isBare) : close;
  return end < 0 ? rest.join('\n') : rest.slice(0, end).map((line) => `${line}\n`).join('');
}

export class Edit {
  constructor(page) {
    this.page = page;
    byId('edit_form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.run();
    });
    byId('edit_stop').addEventListener('click', () => this.running?.abort());
    byId('edit_race').addEventListener('click', () => this.race());
    actOnEnter(byId('change'), () => byId('edit_form').requestSubmit());
    for (const name of ['file', 'change']) keepDraft(byId(name));
  }

  /** What to send: {messages, settings, extra}. */
  task() {
    const { settings } = this.page;
    const read = settings.read();
    const chosen = { ...read, system: read.system || rules, drafter: read.drafter ?? 'prediction' };
    return { ...editOf(byId('file').value, byId('change').value), settings: chosen };
  }

  race() {
    if (!byId('edit_form').reportValidity()) return;
    const reason = this.page.race.refusal();
    if (reason) this.say(reason);
    else this.page.raceThis(this.task(), 'the edit of the file');
  }

  say(text) {
    byId('predicted').textContent = text;
  }

  async run() {
    if (this.running) return this.say('The file still arrives: Stop ends it.');
    if (this.page.race.running) return this.say('A race runs: the edit can begin when it is over.');
    if (!this.page.canSend()) return;
    const old = byId('file').value;
    const { messages, extra, settings } = this.task();
    const view = new ReplyView(this.page, new Reply(), requestOf(this.page.settings.model, messages, settings, extra),
      { tab: 'tab_edit', name: 'Edit of the file' });
    byId('edit_result').replaceChildren(view.element);
    this.say('');
    this.running = new AbortController();
    byId('edit_stop').hidden = false;
    announce('The new file begins.');
    try {
      await view.run(this.running.signal);
    } finally {
      this.running = undefined;
      setHidden(byId('edit_stop'), true, byId('edit_start'));
    }
    this.say(predictionUse(view.reply));
    const file = fileIn(view.reply.answer, old);
    if (file) offer(view, file);
  }
}

/** A button that puts the new file into the box, and then takes it back. What it takes out it keeps, edits included. */
function offer(view, file) {
  const label = view.reply.finish === 'stop' ? 'Put into the box' : 'Put into the box (incomplete)';
  const box = byId('file');
  let kept = file;
  let isThere = false;
  view.addAction(label, (button) => {
    [box.value, kept] = [kept, box.value];
    isThere = !isThere;
    button.textContent = isThere ? 'Take it back' : label;
  });
}

/** How much of the old file was used, in a sentence. */
function predictionUse(reply) {
  const used = reply.usage?.completion_tokens_details;
  if (used?.accepted_prediction_tokens === undefined) return '';
  const copied = reply.rounds.filter((round) => round.drafter === 'prediction').reduce((sum, round) => sum + round.num_accepted, 0);
  const drafted = used.accepted_prediction_tokens + used.rejected_prediction_tokens;
  return `${copied} of ${reply.usage.completion_tokens} tokens were copied from the old file; ` +
    `${used.accepted_prediction_tokens} of ${drafted} draft tokens were accepted.`;
}
