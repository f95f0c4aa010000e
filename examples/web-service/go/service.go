// Answers each request with the document at API_URL, fetched with the token of ACCOUNT: service [PORT]
package main

import (
	"errors"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"strconv"

	"grantd.invalid/grantd"
)

func main() {
	account, port := os.Getenv("ACCOUNT"), "8080"
	if account == "" {
		account = "work"
	}
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	// Adds the token. After 401 it reports the token and sends the request once more.
	api := &http.Client{Transport: &grantd.Transport{Account: account}}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { answer(api, w, r) })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}

func answer(api *http.Client, w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, os.Getenv("API_URL"), nil)
	if err != nil {
		log.Fatal(err)
	}
	response, err := api.Do(request)
	var failed *grantd.Error
	if errors.Is(err, grantd.ErrTemporarilyUnavailable) && errors.As(err, &failed) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Max(1, math.Round(failed.RetryAfter)))))
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	} else if err != nil {
		// The hint of the error is for the administrator, not for the service's users.
		log.Print(err)
		w.WriteHeader(status(err))
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	io.Copy(w, response.Body)
}

func status(err error) int {
	if errors.Is(err, grantd.ErrLoginRequired) {
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}
