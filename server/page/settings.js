// The controls of requests: models, drafters and sampling. They are kept in this browser; the API key only as long
// as the tab is open.
import { listModels, loadProgress } from './api.js';
import { byId, el } from './dom.js';

const storeName = 'paceline.settings';
const keyName = 'paceline.key';
const soon = 1000; // ms until a server is asked again that loads its models
const later = 3000; // and one that is not there
const kept = ['model', 'drafter', 'draft_length', 'rule', 'temperature', 'seed', 'max_tokens', 'system'];

export class Settings {
  /** @param onModels (): the list of models, or the reason why there is none, has changed */
  constructor(onModels) {
    this.form = byId('settings');
    this.onModels = onModels;
    this.models = [];
    this.numAsked = 0;
    this.restore();
    this.form.addEventListener('input', (event) => this.changed(event.target));
    this.form.addEventListener('submit', (event) => event.preventDefault());
    byId('reset_settings').addEventListener('click', () => this.reset());
  }

  control(name) {
    return this.form.elements[name];
  }

  get key() {
    return this.control('key').value.trim();
  }

  get model() {
    return this.models.find((model) => model.id === this.control('model').value) ?? this.models[0];
  }

  /** Fields of requests; absent ones are left to the server. */
  read() {
    const settings = { system: this.control('system').value.trim() };
    for (const name of ['draft_length', 'temperature', 'seed', 'max_tokens']) {
      const value = this.control(name).value.trim();
      if (value !== '') settings[name] = Number(value);
    }
    for (const name of ['drafter', 'rule']) if (this.control(name).value) settings[name] = this.control(name).value;
    return settings;
  }

  /** False, with the browser's message at the control, if a value is not allowed. */
  check() {
    if (this.form.checkValidity()) return true;
    byId('settings_box').open = true;
    return this.form.reportValidity();
  }

  restore() {
    let values = {};
    try {
      this.control('key').value = sessionStorage.getItem(keyName) ?? '';
      values = JSON.parse(localStorage.getItem(storeName)) ?? {};
    } catch {
      // Nothing readable: the defaults.
    }
    this.wanted = values; // of lists that are filled later
    for (const name of kept) if (typeof values[name] === 'string') this.control(name).value = values[name];
  }

  changed(control) {
    try {
      if (control.name === 'key') sessionStorage.setItem(keyName, this.key);
      const unlisted = this.models.length > 0 ? [] : ['model', 'drafter']; // what was chosen stays until there is a list
      this.wanted = Object.fromEntries(kept.map((name) => [name, unlisted.includes(name) ? this.wanted[name] : this.control(name).value]));
      localStorage.setItem(storeName, JSON.stringify(this.wanted));
    } catch {
      // No room, or switched off: the settings hold until the page is closed.
    }
    if (control.name === 'model') this.listDrafters();
    if (control.name === 'key') {
      clearTimeout(this.asking);
      this.asking = setTimeout(() => this.load(), 400);
    }
  }

  reset() {
    const { model, key } = { model: this.control('model').value, key: this.key };
    this.form.reset();
    this.control('key').value = key;
    this.control('model').value = model;
    this.wanted = { model: this.wanted.model }; // also where there is no list of models yet
    this.changed(this.control('model'));
  }

  /** Asks the server for its models, and asks again until it has some. `failure` says what is missing. */
  async load() {
    clearTimeout(this.asking);
    const number = ++this.numAsked;
    const { models = [], failure } = await listModels(this.key).then((models) => ({ models }), (failure) => ({ failure }));
    if (failure?.code === 'loading') failure.progress = await loadProgress().catch(() => 0);
    if (number !== this.numAsked) return; // a later call knows more
    if (failure && !failure.needsKey) this.asking = setTimeout(() => this.load(), failure.progress === undefined ? later : soon);
    const isSame = JSON.stringify(models) === JSON.stringify(this.models);
    Object.assign(this, { models, failure });
    if (!isSame) { // a list that somebody looks at stays as it is
      fillSelect(this.control('model'), this.models.map((model) => model.id), this.wanted.model);
      this.listDrafters();
    }
    this.onModels();
  }

  listDrafters() {
    const names = this.model?.meta?.drafters ?? [];
    const labels = { none: 'none: plain decoding' };
    const select = this.control('drafter');
    fillSelect(select, names, this.wanted.drafter, labels);
    select.prepend(el('option', { value: '' }, 'the model’s default'));
    if (!names.includes(this.wanted.drafter)) select.value = '';
  }
}

function fillSelect(select, values, wanted, labels = {}) {
  select.replaceChildren(...values.map((value) => el('option', { value }, labels[value] ?? value)));
  if (values.includes(wanted)) select.value = wanted;
}
