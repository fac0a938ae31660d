package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// healthHandler answers with the state in the form that the asker prefers. Text
// is the default because the first reader is a human with curl.
func healthHandler(options *Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), options.RequestTimeout/2)
		defer cancel()
		health := options.Health(ctx)
		status := http.StatusOK
		if !health.Healthy {
			status = http.StatusServiceUnavailable
		}
		if !wantsJSON(r) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(status)
			fmt.Fprintln(w, health.Sentence) // an error here means that the asker left
			return
		}
		body, err := json.Marshal(struct {
			Healthy  bool           `json:"healthy"`
			Sentence string         `json:"sentence"`
			Details  map[string]any `json:"details,omitempty"`
		}{health.Healthy, health.Sentence, health.Details})
		if err != nil {
			http.Error(w, fmt.Sprintf("admin: health details: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(append(body, '\n')) // likewise
	})
}

// wantsJSON follows ?format= first and then the Accept header: JSON when it is named
// and text is not named before it.
func wantsJSON(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "json":
		return true
	case "text":
		return false
	}
	for _, accepted := range strings.Split(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(strings.TrimSpace(accepted), ";")
		switch strings.TrimSpace(kind) {
		case "application/json":
			return true
		case "text/plain", "text/*", "text/html":
			return false
		}
	}
	return false
}
