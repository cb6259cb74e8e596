package random

import (
	_ "crypto/rand"  // want `import of crypto/rand: its bytes can't be seeded`
	_ "hash/maphash" // want `import of hash/maphash`
	oldrand "math/rand"
	"math/rand/v2"
)

func bad() {
	_ = rand.IntN(3)                   // want `rand\.IntN: it draws from a global source`
	_ = rand.Uint64()                  // want `rand\.Uint64`
	_ = rand.N(10)                     // want `rand\.N`
	rand.Shuffle(2, func(i, j int) {}) // want `rand\.Shuffle`
	_ = oldrand.Intn(3)                // want `rand\.Intn`
	oldrand.Seed(1)                    // want `rand\.Seed`
	draw := rand.Int64                 // want `rand\.Int64`
	_ = draw
}

func good() uint64 {
	var source rand.Source = rand.NewPCG(1, 2)
	_ = oldrand.New(oldrand.NewSource(1)).Intn(3)
	return rand.New(source).Uint64N(5)
}
