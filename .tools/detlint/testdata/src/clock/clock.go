package clock

import (
	"time"
	stdtime "time"
)

func bad() {
	_ = time.Now()                                    // want `time\.Now: the kernel can't see real time`
	_ = time.Since(time.Time{})                       // want `time\.Since`
	_ = time.Until(time.Time{})                       // want `time\.Until`
	time.Sleep(time.Second)                           // want `time\.Sleep`
	_ = time.After(1)                                 // want `time\.After`
	time.AfterFunc(1, func() {})                      // want `time\.AfterFunc`
	_ = time.Tick(1)                                  // want `time\.Tick`
	_ = time.NewTimer(1)                              // want `time\.NewTimer`
	_ = time.NewTicker(1)                             // want `time\.NewTicker`
	_ = stdtime.Now()                                 // want `time\.Now`
	now := time.Now                                   // want `time\.Now`
	_ = struct{ now func() time.Time }{now: time.Now} // want `time\.Now`
	_ = now
}

func good(at time.Time) time.Duration {
	type clock struct{ Now func() time.Time }
	c := clock{}
	_ = c.Now()
	_ = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return at.Sub(time.Unix(0, 0)) + time.Second
}
