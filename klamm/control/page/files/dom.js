// Makes elements. Text is always set as text: nothing from the cluster is ever read as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

// Sets the text of an element, if it differs, so that a selection of the user stays.
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// Makes the children of a container follow a list. An item keeps its element, and with it the focus.
export function keyed(container, items, keyOf, create, update) {
  const known = (container.keyedElements ??= new Map());
  const wanted = new Set();
  let place = container.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    let element = known.get(key);
    if (element === undefined) {
      element = create(item);
      known.set(key, element);
    }
    update(element, item);
    if (element === place) place = place.nextElementSibling;
    else container.insertBefore(element, place);
  }
  for (const [key, element] of known) {
    if (!wanted.has(key)) {
      element.remove();
      known.delete(key);
    }
  }
}

const numbers = new Intl.NumberFormat("en");
export const number = (value) => numbers.format(value);
