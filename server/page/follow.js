// Keeps the end of a growing text in view, as long as the reader is there.

export class Follower {
  /**
   * @param end an element behind the text
   * @param scroller the element that scrolls, if it does; else the page
   * @param button takes the reader back to the end
   */
  constructor(end, scroller, button) {
    Object.assign(this, { end, scroller, button, isFollowing: true, lastTop: 0 });
    scroller.addEventListener('scroll', () => this.scrolled(scroller.scrollTop), { passive: true });
    addEventListener('scroll', () => this.scrolled(scrollY), { passive: true });
    button.addEventListener('click', () => this.toEnd());
  }

  isAtEnd() {
    const bottom = Math.min(innerHeight, this.scroller.getBoundingClientRect().bottom + 40);
    return this.end.getBoundingClientRect().top <= bottom + 8;
  }

  /** Only the reader scrolls up; the page itself goes down only. */
  scrolled(top) {
    if (this.isAtEnd()) this.isFollowing = true;
    else if (top < this.lastTop) this.isFollowing = false;
    this.lastTop = top;
    this.button.hidden = this.isFollowing;
  }

  /** The text has grown. */
  grown() {
    if (this.isFollowing) this.end.scrollIntoView({ block: 'nearest' });
    else this.button.hidden = false;
  }

  toEnd() {
    this.isFollowing = true;
    this.button.hidden = true;
    this.end.scrollIntoView({ block: 'nearest' });
  }
}
