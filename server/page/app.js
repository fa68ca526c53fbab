// The start: connects the parts of the page.
import { continuedTokens, isChat } from './api.js';
import { Chat } from './chat.js';
import { announce, byId, moveFocus } from './dom.js';
import { Edit } from './edit.js';
import { Panel } from './panel.js';
import { Race } from './race.js';
import { Settings } from './settings.js';

const narrow = matchMedia('(max-width: 70rem)');

/** Where there is room, settings and history are open; where there is none, they close, unless somebody is in them. */
function fold() {
  for (const box of [byId('settings_box'), byId('history_box')]) {
    if (!narrow.matches) box.open = true;
    else if (!box.contains(document.activeElement)) box.open = false;
  }
}

class Page {
  constructor() {
    this.settings = new Settings(() => this.showModels());
    this.panel = new Panel(byId('panel'));
    this.panel.openTab('tab_chat');
    this.tabs = [...document.querySelectorAll('[role=tab]')];
    for (const tab of this.tabs) tab.addEventListener('click', () => this.open(tab));
    document.querySelector('[role=tablist]').addEventListener('keydown', (event) => this.moveTab(event));
    byId('show_origins').addEventListener('change', (event) => document.body.classList.toggle('unmarked', !event.target.checked));
    narrow.addEventListener('change', fold);
    fold();
    this.chat = new Chat(this);
    this.edit = new Edit(this);
    this.race = new Race(this);
  }

  open(tab) {
    for (const other of this.tabs) {
      const isOpen = other === tab;
      other.setAttribute('aria-selected', String(isOpen));
      other.tabIndex = isOpen ? 0 : -1;
      const view = byId(other.getAttribute('aria-controls'));
      if (!isOpen) moveFocus(view, tab);
      view.hidden = !isOpen;
    }
    this.panel.openTab(tab.id);
    if (tab.id === 'tab_chat') this.chat.shown();
  }

  moveTab(event) {
    const at = this.tabs.indexOf(event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const tab = this.tabs[(to + this.tabs.length) % this.tabs.length];
    this.open(tab);
    tab.focus();
  }

  raceThis(task, what) {
    this.open(byId('tab_race'));
    this.race.run(task, what);
  }

  /** False, with the reason shown, if nothing can be sent now. */
  canSend() {
    if (!this.settings.check()) return false;
    if (this.settings.models.length > 0) return true;
    this.settings.load();
    announce(byId('served').textContent);
    return false;
  }

  showModels() {
    const { model, failure, key } = this.settings;
    const served = byId('served');
    const isLoading = failure?.progress !== undefined;
    const text = failure ? this.missing(failure) : describe(model);
    served.classList.toggle('failed', Boolean(failure) && !isLoading);
    served.textContent = text;
    if (failure?.needsKey) byId('settings_box').open = true;
    if (model) this.settings.control('max_tokens').placeholder = isChat(model) ? 'context' : continuedTokens;
    // How far the models are, and that the same is still missing, is told once.
    const state = isLoading ? 'loading' : failure && `${text} ${key}`;
    if (failure && state !== this.state) announce(text);
    if (!failure && this.state) announce(`Ready: ${text}`);
    this.state = state;
  }

  /** What is missing until a message can be sent. */
  missing({ needsKey, progress, message }) {
    if (needsKey && this.settings.key) return `The API key was not accepted: ${message}.`;
    if (needsKey) return 'This server wants an API key: enter it in the settings.';
    if (progress !== undefined) return `Loading the models: ${Math.floor(100 * progress)} %`;
    return `No models: ${message}. Asking again …`;
  }
}

function describe(model) {
  const continues = isChat(model) ? '' : ', continues text: it has no chat template';
  return `${model.id}, context of ${model.max_model_len} tokens${continues}`;
}

const page = new Page();
byId('settings').elements.model.addEventListener('change', () => page.showModels());
page.settings.load();
