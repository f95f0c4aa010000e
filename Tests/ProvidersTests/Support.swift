import Foundation
import Grants
import OAuth

/// Everything happens around this moment; a test's times are seconds from it.
let start = Timestamp(seconds: 1_800_000_000)

func at(_ seconds: Double) -> Timestamp { start + .milliseconds(Int64(seconds * 1000)) }

let account = AccountName(rawValue: "work")!
let providerName = ProviderName(rawValue: "example")!

func savedGrant(
  refreshToken: String? = "refresh-1", scopes: [String] = ["openid", "mail"], idToken: Secret? = nil,
  identity: Identity? = nil
) -> SavedGrant {
  SavedGrant(
    account: account, provider: providerName, identity: identity, requestedScopes: scopes, grantedScopes: scopes,
    refreshToken: refreshToken.map(Secret.init), previousRefreshToken: nil, idToken: idToken, generation: 1,
    standing: .good, createdAt: start, loggedInAt: start)
}

/// An answer of the provider, JSON unless it says otherwise.
func answer(
  _ body: String, status: Int = 200, type: String = "application/json", headers: [HTTPRequest.Header] = []
) -> HTTPResponse {
  HTTPResponse(
    status: status, headers: (type.isEmpty ? [] : [.init("Content-Type", type)]) + headers, body: Data(body.utf8))
}
