package grantd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Token is the result of token.get. Printing and JSON show no secret: the secrets are behind methods.
type Token struct {
	Account    string
	Provider   string
	Issuer     string
	Scope      []string
	Generation int64
	// Expiry is zero if the provider gave no lifetime.
	Expiry time.Time
	Type   string
	// Extra has members of the provider's answers that the configuration keeps.
	Extra map[string]json.RawMessage `json:"-"`
	// encoding/json leaves it out.
	secrets *secrets
}

type secrets struct{ access, cookie, session string }

type wireToken struct {
	AccessToken string                     `json:"access_token"`
	TokenType   string                     `json:"token_type"`
	Cookie      string                     `json:"cookie"`
	SessionID   string                     `json:"session_id"`
	ExpiresAt   *int64                     `json:"expires_at"`
	Scope       []string                   `json:"scope"`
	Account     string                     `json:"account"`
	Provider    string                     `json:"provider"`
	Issuer      string                     `json:"issuer"`
	Generation  *int64                     `json:"generation"`
	Extra       map[string]json.RawMessage `json:"extra"`
}

func newToken(result json.RawMessage) (*Token, error) {
	var wire wireToken
	if json.Unmarshal(result, &wire) != nil || wire.AccessToken == "" && wire.Cookie == "" || wire.Generation == nil ||
		*wire.Generation < 0 {
		return nil, bad("has no token")
	}
	token := &Token{
		Account: wire.Account, Provider: wire.Provider, Issuer: wire.Issuer, Scope: wire.Scope, Generation: *wire.Generation,
		Type: wire.TokenType, Extra: wire.Extra, secrets: &secrets{wire.AccessToken, wire.Cookie, wire.SessionID}}
	if token.Type == "" {
		token.Type = "Bearer"
	}
	if wire.ExpiresAt != nil {
		token.Expiry = time.Unix(*wire.ExpiresAt, 0)
	}
	return token, nil
}

// AccessToken is empty if the provider uses sessions; then Cookie and SessionID are set.
func (t Token) AccessToken() string { return t.secrets.access }

// Cookie is the session as a Cookie header has it.
func (t Token) Cookie() string { return t.secrets.cookie }

// SessionID is the session. It is a secret.
func (t Token) SessionID() string { return t.secrets.session }

// SetHeader sets the Authorization header, or Cookie for a session.
func (t Token) SetHeader(header http.Header) {
	if t.secrets.access == "" {
		header.Set("Cookie", t.secrets.cookie)
		return
	}
	header.Set("Authorization", t.Type+" "+t.secrets.access)
}

// String shows no secret.
func (t Token) String() string {
	return fmt.Sprintf("token of %s, generation %d, ‹redacted›", t.Account, t.Generation)
}

// Format prints String for each verb, also for a copied token.
func (t Token) Format(state fmt.State, verb rune) { fmt.Fprint(state, t.String()) }
