package api

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API of this package. It is written manually, and a test compares it with the code.
//
//go:embed openapi.yaml
var openAPI []byte

// getOpenAPI serves GET /api/v1/openapi.yaml.
func (s *Server) getOpenAPI(w http.ResponseWriter, _ *http.Request) *Problem {
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	_, _ = w.Write(openAPI)
	return nil
}
