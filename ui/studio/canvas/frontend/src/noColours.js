// Replaces d3-color, to save its 10 kB: React Flow animates numbers, never colours.

function none() {
  return null; // "not a colour"
}

export { none as color, none as cubehelix, none as hcl, none as hsl, none as lab, none as rgb };
