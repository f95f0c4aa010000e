package grantd

import "fmt"

// Reason is the word of an error to branch on.
type Reason string

// AccountState is the state of an account.
type AccountState string

// EventType is the type of an event.
type EventType string

// Error is a call that failed. Its text is the message and the hint; it never contains a token. Compare it by errors.Is:
//
//	if errors.Is(err, grantd.ErrLoginRequired) { … }
type Error struct {
	// Reason is empty for an error of JSON-RPC itself. It may be one that this version does not name.
	Reason Reason
	// Message is for users; its words may change.
	Message string
	// Hint is the user's next step.
	Hint string
	// Code is the number of JSON-RPC; 0 for an error that the library found.
	Code int
	// RetryAfter is the number of seconds after which another attempt is useful; 0 if unknown.
	RetryAfter float64
	// OAuth is the provider's error, error_description and error_uri (RFC 6749 §5.2).
	OAuth map[string]string
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return fmt.Sprintf("%s: %s", e.Message, e.Hint)
}

// Is reports whether target is the error variable of the reason.
func (e *Error) Is(target error) bool {
	reason, ok := target.(reasonError)
	return ok && Reason(reason) == e.Reason
}

type reasonError Reason

func (e reasonError) Error() string { return "grantd: " + string(e) }

func bad(what string) *Error {
	return &Error{Reason: ReasonBadAnswer, Message: "the broker's answer " + what, Hint: "Run `grantctl doctor`."}
}

func disconnected() *Error {
	return &Error{Reason: ReasonDisconnected, Message: "the broker closed the connection", Hint: "Try again."}
}

func late() *Error {
	return &Error{Reason: ReasonTimedOut, Message: "the broker did not answer in time", Hint: "Try again."}
}
