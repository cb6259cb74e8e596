package history

// UnknownWord is the error for an event with a name that this program does not know, because a newer
// program wrote it. The rest of the event was read, and the reader can continue with the next event.
type UnknownWord struct {
	// Err names the word and its position.
	Err error
}

// Error implements error.
func (u *UnknownWord) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u *UnknownWord) Unwrap() error { return u.Err }
