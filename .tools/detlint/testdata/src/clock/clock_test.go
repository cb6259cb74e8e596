package clock

import "time"

// Test files are exempt.
var started = time.Now()
