package source

// Seed is the seed of the draw: the full hash of the commit that fixed operators, quotas and the rule of
// the draw, before the first rule that the score measures. Until that commit stands, there is none.
const Seed = ""
