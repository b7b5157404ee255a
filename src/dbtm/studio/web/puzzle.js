// Puzzles on a page: reading pasted text, and finding clues that clash.

// Cells in reading order from 81 (or 16) characters or from lines; null if the text is not a grid.
export function readPuzzle(text) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/).map(line => line.replace(/[\s|+-]/g, "")).filter(line => line);
  const digits = lines.join("");
  if (!/^[0-9._*]+$/.test(digits) || ![16, 81].includes(digits.length)) return null;
  const cells = [...digits].map(c => /[1-9]/.test(c) ? Number(c) : 0);
  return Math.max(...cells) <= Math.sqrt(digits.length) ? cells : null;
}

export const writePuzzle = cells => cells.join("");

// Cells whose digit occurs twice in a row, column or box, and a sentence about the first of them.
export function findClashes(cells) {
  const size = Math.sqrt(cells.length), box = Math.sqrt(size), clashing = new Set();
  let sentence = "";
  const units = [];
  for (let i = 0; i < size; i++) {
    units.push([`row ${i + 1}`, cells.map((_, c) => c).filter(c => Math.floor(c / size) === i)]);
    units.push([`column ${i + 1}`, cells.map((_, c) => c).filter(c => c % size === i)]);
    const [top, left] = [Math.floor(i / box) * box, i % box * box];
    units.push([`box ${i + 1}`, cells.map((_, c) => c).filter(c =>
      Math.floor(Math.floor(c / size) / box) * box === top && Math.floor(c % size / box) * box === left)]);
  }
  for (const [name, unit] of units) {
    for (const cell of unit) {
      const twins = unit.filter(other => other !== cell && cells[other] && cells[other] === cells[cell]);
      if (!twins.length) continue;
      clashing.add(cell);
      sentence ||= `${name} has two ${cells[cell]}s`;
    }
  }
  return { clashing, sentence };
}
