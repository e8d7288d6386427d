package simaws

import (
	"errors"
	"fmt"
	"net/http"
)

// apiError is an error as AWS answers it. Each protocol has its own envelope.
type apiError struct {
	Status        int
	Code, Message string
	// Reason is a second code that some services put beside the first.
	Reason string
}

// Error is the code and the message.
func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// fail makes a client error.
func fail(code, format string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// saying is the same error with another message.
func (e *apiError) saying(format string, args ...any) *apiError {
	out := *e
	out.Message = fmt.Sprintf(format, args...)
	return &out
}

func (e *apiError) because(reason string) *apiError {
	e.Reason = reason
	return e
}

func (e *apiError) withStatus(status int) *apiError {
	e.Status = status
	return e
}

func missing(param string) *apiError {
	return fail("MissingParameter", "The request must contain the parameter %s", param)
}

func badValue(param, value, want string) *apiError {
	return fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. %s", value, param, want)
}

var errDryRun = &apiError{Status: http.StatusPreconditionFailed, Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set."}

// writeError answers in the envelope of the call's protocol.
func writeError(w http.ResponseWriter, c *call, e *apiError) {
	h := w.Header()
	switch c.proto {
	case protoEC2:
		h.Set("Content-Type", "text/xml;charset=UTF-8")
		w.WriteHeader(e.Status)
		x := newXML()
		defer x.free()
		x.raw(`<?xml version="1.0" encoding="UTF-8"?>`)
		x.raw("<Response><Errors><Error>")
		x.str("Code", e.Code)
		x.str("Message", e.Message)
		x.raw("</Error></Errors>")
		x.str("RequestID", c.requestID)
		x.raw("</Response>")
		_, _ = w.Write(x.b)
	case protoQuery:
		h.Set("Content-Type", "text/xml")
		w.WriteHeader(e.Status)
		x := newXML()
		defer x.free()
		x.raw(`<ErrorResponse xmlns="` + namespaces[c.service] + `"><Error>`)
		x.str("Type", sender(e.Status))
		x.str("Code", e.Code)
		x.str("Message", e.Message)
		x.raw("</Error>")
		x.str("RequestId", c.requestID)
		x.raw("</ErrorResponse>")
		_, _ = w.Write(x.b)
	default:
		writeJSONError(w, c, e)
	}
}

func writeJSONError(w http.ResponseWriter, c *call, e *apiError) {
	h := w.Header()
	h.Set("X-Amzn-ErrorType", e.Code)
	code := e.Code
	if c.service == "sqs" {
		// Clients that still think in the query protocol read this header.
		h.Set("X-Amzn-Query-Error", sqsQueryCode(e.Code)+";"+sender(e.Status))
		code = "com.amazonaws.sqs#" + e.Code
	}
	h.Set("Content-Type", c.jsonType())
	w.WriteHeader(e.Status)
	body := map[string]string{"__type": code, "message": e.Message, "Message": e.Message}
	if e.Reason != "" {
		body["reason"] = e.Reason
	}
	_, _ = w.Write(mustJSON(body))
}

func sender(status int) string {
	if status >= 500 {
		return "Receiver"
	}
	return "Sender"
}

// Code is the code of an error that Do returned, as AWS calls it, or empty.
func Code(err error) string {
	var e *apiError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
