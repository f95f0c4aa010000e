/// The proof that goes with a token bound to a key (RFC 9449 §4).
public enum DPoPProof: TokenRelease {
  public static let name = "dpop.proof"
  public static let access = Access.use
  public static let summary =
    "Signs the proof for one request with a token that is bound to the account's key (RFC 9449)."
  public static let errors: [ErrorReason] = ProviderQuestion.errors

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var method: String
    public var url: String
    public var nonce: String?
    public var access_token: SecretText?
    public var timeout: Double?

    public init(
      account: String, method: String, url: String, nonce: String? = nil, access_token: SecretText? = nil,
      timeout: Double? = nil
    ) {
      self.account = account
      self.method = method
      self.url = url
      self.nonce = nonce
      self.access_token = access_token
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var proof: String
    public var thumbprint: String

    public init(proof: String, thumbprint: String) {
      self.proof = proof
      self.thumbprint = thumbprint
    }
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "method": "The request's HTTP method, such as `GET`.",
    "url": "The request's address; its query and fragment do not count (RFC 9449 §4.2).",
    "nonce": "The nonce of the resource server's last `DPoP-Nonce` header field (RFC 9449 §9).",
    "access_token":
      "The token of the proof, if it is not the account's current one: a narrowed or an older one.",
    "timeout": "Seconds to wait for the token before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "proof": "The value of the `DPoP` header field, for this one request; send it with `Authorization: DPoP TOKEN`.",
    "thumbprint": "The thumbprint of the account's key (RFC 7638), the same as `token.get`'s `dpop_thumbprint`.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "method": "GET", "url": "https://api.example.com/me"],
    result: [
      "proof": "eyJ0eXAiOiJkcG9wK2p3dCJ9.eyJodG0iOiJHRVQifQ.c2ln",
      "thumbprint": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
    ])
}
