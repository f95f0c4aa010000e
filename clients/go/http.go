package grantd

import (
	"io"
	"net/http"
)

// Transport is an http.RoundTripper that adds an account's token. After 401 it reports the token and sends the request once
// more, if the body can be sent again (http.Request.GetBody).
//
//	client := &http.Client{Transport: &grantd.Transport{Account: "work", Host: "api.example.com"}}
type Transport struct {
	Account string
	Options Options
	// Host is the only host (with its port, as in a URL) that gets the token. Empty: the host of the first request. A redirect
	// to another host gets no token.
	Host string
	// Client is a shared one if nil.
	Client *Client
	// Base is http.DefaultTransport if nil.
	Base http.RoundTripper
}

// At most so much of the body of a 401 is read, so that its connection can be used again.
const drainedBytes = 64 << 10

// RoundTrip sends the request.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	client, base := t.Client, t.Base
	if client == nil {
		client = &shared
	}
	if base == nil {
		base = http.DefaultTransport
	}
	if !t.isHome(request) {
		return base.RoundTrip(request)
	}
	ctx := request.Context()
	token, err := client.Token(ctx, t.Account, t.Options)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	response, err := base.RoundTrip(with(request, token))
	hasBody := request.Body != nil && request.Body != http.NoBody
	if err != nil || response.StatusCode != http.StatusUnauthorized || hasBody && request.GetBody == nil {
		return response, err
	}
	if _, err = client.ReportRejected(ctx, token.Account, token.Generation); err == nil {
		token, err = client.Token(ctx, t.Account, t.Options)
	}
	again := request.Clone(ctx)
	if err == nil && hasBody {
		again.Body, err = request.GetBody()
	}
	io.CopyN(io.Discard, response.Body, drainedBytes)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	return base.RoundTrip(with(again, token))
}

// isHome: http.Client makes the request of a redirect with the response that led to it.
func (t *Transport) isHome(request *http.Request) bool {
	if t.Host != "" {
		return request.URL.Host == t.Host
	}
	first := request
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	return first.URL.Host == request.URL.Host && first.URL.Scheme == request.URL.Scheme
}

// with returns a copy: a RoundTripper does not change its request.
func with(request *http.Request, token *Token) *http.Request {
	copied := request.Clone(request.Context())
	token.SetHeader(copied.Header)
	return copied
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		request.Body.Close()
	}
}
