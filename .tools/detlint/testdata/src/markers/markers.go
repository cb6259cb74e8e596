package markers

import "time"

func marked() {
	_ = time.Now() //detlint:ok the watchdog watches real time

	//detlint:ok the watchdog watches real time
	_ = time.Now()

	//detlint:ok the reason is long,
	// so it takes another line
	_ = time.Now()

	_ = time.Now() //detlint:ok // want `//detlint:ok needs a reason`

	_ = time.Now() //detlint:ok covers this line alone
	_ = time.Now() // want `time\.Now`

	//detlint:ok covers one line only
	_ = time.Now()
	_ = time.Now() // want `time\.Now`

	_ = 1 //detlint:ok nothing to suppress // want `//detlint:ok suppresses nothing`

	_ = time.Now() // detlint:ok with a blank // want `time\.Now` `write //detlint:ok without a blank`

	_ = time.Now() //detlint:okay // want `time\.Now`
}
