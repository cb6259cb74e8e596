package history

// UnknownWord is the error of who reads an event in which a name stands that this program does not know: a newer program
// wrote it. The rest of the event was read, and so can what follows it be.
type UnknownWord struct {
	// Err says which word, and where it stands.
	Err error
}

// Error implements error.
func (u *UnknownWord) Error() string { return u.Err.Error() }

// Unwrap returns the reason.
func (u *UnknownWord) Unwrap() error { return u.Err }
