// The node types that match a query.

export const wordsIn = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);

/** The types whose title, name or summary contains the words, by category and in the order of the categories. */
export function typesByCategory(types, categories, query) {
  const words = wordsIn(query);
  const matches = ([name, type]) => {
    const text = `${name} ${type.title} ${type.summary} ${type.category}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const fitting = Object.entries(types).filter(matches);
  const all = [...new Set([...categories, ...fitting.map(([, { category }]) => category)])];
  return all
    .map((category) => ({ category, items: fitting.filter(([, type]) => type.category === category) }))
    .filter(({ items }) => items.length);
}

/** The same as one list: first the types whose title begins with the words, then those whose title contains them. */
export function ranked(types, categories, query) {
  const text = wordsIn(query).join(" ");
  const rank = ([, { title }]) => [title.toLowerCase().startsWith(text), title.toLowerCase().includes(text)].filter((fits) => !fits).length;
  return typesByCategory(types, categories, query)
    .flatMap(({ items }) => items)
    .sort((a, b) => rank(a) - rank(b));
}
