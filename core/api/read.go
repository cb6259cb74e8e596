package api

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// read takes the body of a request that must be JSON, and nothing beyond the limit. It allocates what the request says
// that it sends, and for one that does not say, at most twice what comes.
func read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *Problem) {
	if problem := isJSON(r); problem != nil {
		return nil, problem
	}
	above := tooLarge(fmt.Sprintf("The body may have %d bytes.", limit))
	if r.ContentLength > limit {
		return nil, above
	}
	var data bytes.Buffer
	data.Grow(int(max(0, r.ContentLength)) + bytes.MinRead)
	_, err := data.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, above
	case err != nil:
		return nil, incomplete()
	}
	// The body is there; a deadline for it would end the request itself.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return data.Bytes(), nil
}

func incomplete() *Problem { return badRequest("The body ended before it was complete.") }

// isJSON refuses what would be read as something that it is not.
func isJSON(r *http.Request) *Problem {
	refuse := func(detail string) *Problem {
		return &Problem{Type: typeMediaType, Title: "The body must be JSON", Status: http.StatusUnsupportedMediaType, Detail: detail}
	}
	// A page in a browser can send other types to other sites without asking.
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
