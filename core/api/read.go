package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// readBody reads the body of a request, which must be JSON, up to a limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *Problem) {
	if problem := isJSON(r); problem != nil {
		return nil, problem
	}
	above := tooLarge(fmt.Sprintf("The body may have %d bytes.", limit))
	if r.ContentLength > limit {
		return nil, above
	}
	data, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, above
	case err != nil:
		return nil, incompleteBody()
	}
	// The body is complete. If the read deadline stayed, its expiry would cancel the request while it is
	// handled.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return data, nil
}

// readAll reads to the end. It allocates the size that the request states; if it states none, up to twice the
// size of what arrives.
func readAll(from io.Reader, size int64) ([]byte, error) {
	if size >= 0 {
		data := make([]byte, size)
		_, err := io.ReadFull(from, data)
		return data, err
	}
	var pieces [][]byte
	for {
		piece, err := io.ReadAll(io.LimitReader(from, smallBody))
		if err != nil {
			return nil, err
		}
		if len(piece) == 0 {
			return bytes.Join(pieces, nil), nil
		}
		pieces = append(pieces, piece)
	}
}

func incompleteBody() *Problem { return badRequest("The body ended before it was complete.") }

// isJSON refuses a body that is not declared as plain JSON, so that nothing else is read as JSON.
func isJSON(r *http.Request) *Problem {
	refuse := func(detail string) *Problem {
		return &Problem{Type: typeMediaType, Title: "The body must be JSON", Status: http.StatusUnsupportedMediaType, Detail: detail}
	}
	// A page in a browser may send other types to other sites without a preflight request.
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return refuse("Send the header Content-Type: application/json.")
	}
	if charset, given := parameters["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return refuse("JSON is UTF-8: send the header Content-Type: application/json, without another charset.")
	}
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return refuse("Send the body as it is, without Content-Encoding: compressed bodies are not unpacked.")
		}
	}
	return nil
}
