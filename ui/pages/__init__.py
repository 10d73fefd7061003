"""The pages of the studio, one module each; each has a function ``page`` that draws it."""
