// Edit this file: the old file is the request's prediction, so the parts that stay are drafted from it.
import { requestOf } from './api.js';
import { announce, byId } from './dom.js';
import { Reply } from './reply.js';
import { ReplyView } from './reply_view.js';

const rules = 'You edit files. Reply with the whole new file in one code block and nothing else. Change only what is asked for.';

/** The messages and the prediction of an edit. */
export function editOf(file, change) {
  const messages = [{ role: 'user', content: `${change}\n\n\`\`\`\n${file.replace(/\n$/, '')}\n\`\`\`` }];
  return { messages, extra: { prediction: { type: 'content', content: file } } };
}

/** The file in a reply: what its first code block contains, or all of it. */
export function fileIn(answer) {
  const found = /^(`{3,})[^\n]*\n([^]*?)^\1\s*$/m.exec(answer) ?? /^(`{3,})[^\n]*\n([^]*)$/m.exec(answer);
  return found ? found[2] : answer;
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
    byId('change').addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      byId('edit_form').requestSubmit();
    });
  }

  /** What to send: {messages, settings, extra}. */
  task() {
    const { settings } = this.page;
    const read = settings.read();
    const chosen = { ...read, system: read.system || rules, drafter: read.drafter ?? 'prediction' };
    return { ...editOf(byId('file').value, byId('change').value), settings: chosen };
  }

  race() {
    if (byId('edit_form').reportValidity()) this.page.raceThis(this.task(), 'the edit of the file');
  }

  async run() {
    if (this.running || !this.page.canSend()) return;
    const { messages, extra, settings } = this.task();
    const view = new ReplyView(this.page, new Reply(), requestOf(this.page.settings.model, messages, settings, extra));
    byId('edit_result').replaceChildren(view.element);
    byId('predicted').textContent = '';
    this.running = new AbortController();
    byId('edit_stop').hidden = false;
    announce('The new file begins.');
    await view.run(this.running.signal);
    this.running = undefined;
    byId('edit_stop').hidden = true;
    byId('predicted').textContent = predictionUse(view.reply);
    const file = fileIn(view.reply.answer);
    if (!file) return;
    view.addAction('Put into the box', (button) => {
      const before = byId('file').value;
      byId('file').value = file;
      button.remove();
      view.addAction('Take it back', (other) => {
        byId('file').value = before;
        other.remove();
      });
    });
  }
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
