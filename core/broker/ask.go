package broker

// This file is for callers that compare the codec with the contract. It exposes what Decode uses,
// and decides nothing.

// AskReaders reads a body with both readers of Decode. fast is what the reader of hints read; ok is
// false if it left the body to the other one, which is no error. careful and err are the result of
// the reader of all messages.
func AskReaders(body []byte) (fast Envelope, ok bool, careful Envelope, err error) {
	fast, ok = hint(body)
	careful, err = decode(body)
	return fast, ok, careful, err
}
