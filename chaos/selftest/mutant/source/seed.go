package source

// Seed is the seed of the draw: the full hash of the commit that fixed operators, quotas and the
// rule of the draw, before the first rule that the score measures.
const Seed = "8a501143e13a6630e585c9b4ba8fff212559156b"
