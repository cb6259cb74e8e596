package floats

import "math"

type rate float64

func bad(a, b float64, r rate, f float32, n int) {
	_ = a * b                 // want `float arithmetic`
	_ = (a*b + 1) / 2         // want `float arithmetic`
	_ = r * 2                 // want `float arithmetic`
	_ = f - 1                 // want `float arithmetic`
	_ = int(float64(n) * 0.5) // want `float arithmetic`
	a += b                    // want `float arithmetic`
	a++                       // want `float arithmetic`
	_ = math.Pow(a, 2)        // want `math\.Pow`
}

func number[T ~float64](a, b T) T {
	return a + b // want `float arithmetic`
}

func good(a, b float64, n int) bool {
	const half = 1.0 / 2
	_ = n*2 + 1
	_ = math.Floor(a)
	_ = math.MaxInt64 - n
	_ = a + b //detlint:ok a figure for the report, no effect depends on it
	return a < b
}
