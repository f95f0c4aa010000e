@testable import CredentialHelpers

/// What a protocol makes of an input: a request, or why not.
func request<P: CredentialProtocol>(
  _ type: P.Type, _ arguments: [String], _ input: String, environment: [String: String] = [:]
) throws -> Request {
  try P(Invocation(arguments: arguments, environment: environment), input: Array(input.utf8)).request
}

/// The answer with a token, as text.
func answer<P: CredentialProtocol>(
  _ type: P.Type, _ arguments: [String], _ input: String,
  _ token: IssuedToken = .init(text: "T", expiresAt: 1_767_229_199),
  environment: [String: String] = [:]
) throws -> String {
  let asked = try P(Invocation(arguments: arguments, environment: environment), input: Array(input.utf8))
  return try asked.answer(token).text
}

extension Reply {
  var text: String { String(decoding: out, as: UTF8.self) }
}

func token(_ place: String, username: String? = nil, account: String? = nil) -> Request {
  .token(HelperTokenRequest(place: ServerLocation(place), username: username, account: account))
}
