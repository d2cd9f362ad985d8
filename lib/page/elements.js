'use strict';

/** Makes elements and formats numbers for pages. User text goes into text nodes, never markup. */

const element = (id) => document.getElementById(id);

/** Longer texts are shown without their middle; the element's title has the whole text. */
const LONGEST = 200;
const HEAD = 140;

const brief = (text) =>
  text.length > LONGEST ? `${text.slice(0, HEAD)}…${text.slice(HEAD + 1 - LONGEST)}` : text;

function make(tag, text = '', className = '') {
  const made = document.createElement(tag);
  made.textContent = brief(text);
  if (text.length > LONGEST) made.title = text;
  if (className) made.className = className;
  return made;
}

const integers = new Intl.NumberFormat('en');
const whole = (number) => integers.format(number);
const plural = (number, what) => `${whole(number)} ${what}${number === 1 ? '' : 's'}`;

module.exports = { brief, element, make, plural, whole };
