@testable import OAuth

/// Keys as OpenSSL and RFC 8410 §10.3 write them. They sign nothing but what is made here.
enum KeyFiles {
  static let ec256 = """
    -----BEGIN EC PARAMETERS-----
    BggqhkjOPQMBBw==
    -----END EC PARAMETERS-----
    -----BEGIN EC PRIVATE KEY-----
    MHcCAQEEIDqCaVTOT6GyIwPOZqOLr+uPKar3cE6kxeKnl7Gt7R/uoAoGCCqGSM49
    AwEHoUQDQgAEWV/J0yZ9qow/M3IqPdkd16SZ1lFMTu3A2BIKPSYGf98UYC2tWP68
    x/b2XlP2VNg057djnbI1PwzC4Oa/qihqbA==
    -----END EC PRIVATE KEY-----
    """

  static let ec384 = """
    -----BEGIN PRIVATE KEY-----
    MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDga/05bZjbBKvSnXd0
    r9wm/2nAGiubv9BWGlEkTlDLSMCYAd4Ee6ae5D6a4CpVvEuhZANiAAR9zgLsh92o
    Q1cZ+DbRBnUyj+tjlNxZxkso87w9QxO2yXcFjiGoNcIgXODMdgwvgGyWSHbibI2N
    NC3f282KMBX6LV9Ol+m6JsthM/hPBE7HCbXuqXgrn/pc2Chi+Cq4ppA=
    -----END PRIVATE KEY-----
    """

  static let ec521 = """
    -----BEGIN EC PRIVATE KEY-----
    MIHcAgEBBEIBGmTUVyOqXM/09OEi0zBUvFKwmfCZJY+CJb9sv9KAmlDZltSW5Ypg
    W/T4KPv1LlrkHTG/fw8yjuVSBNHlFSN6DWugBwYFK4EEACOhgYkDgYYABABODbdt
    Qe74tL8pC9xpvqX/yQaeFKkitQ/Kv+2ggckZFVsY6Wr6LC6nfNN0/IbZFiwAks6k
    xG+J2mHFaXoxz+kTVACGVYoXZw1/7brwhK5cggRBJ6X3arDE0ODLBb4ouY+mJSsP
    Nspw9ygDfqKJ6Y8ndElpL9aL+mF340pYu8dJTJIhOg==
    -----END EC PRIVATE KEY-----
    """

  static let ed25519 = """
    -----BEGIN PRIVATE KEY-----
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
    -----END PRIVATE KEY-----
    """

  /// The same, with attributes and the public key behind it.
  static let ed25519Long = """
    -----BEGIN PRIVATE KEY-----
    MHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
    oB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB
    Z9w7lshQhqowtrbLDFw4rXAxZuE=
    -----END PRIVATE KEY-----
    """

  static let secp256k1 = """
    -----BEGIN PRIVATE KEY-----
    MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQgWyp4LkACi2kIT+WeUClh
    /IvBNDYJa6iYFbQ6NCbEuXChRANCAASDyeuo3l2QROWKxqni4dAfzM/gj0j9rej4
    ouXC/IrG/YEKVEf+X2eQEvirqmq+XqRwwPdHfJ/+yVkiIHsFBBJR
    -----END PRIVATE KEY-----
    """

  static let secp256k1SEC1 = """
    -----BEGIN EC PRIVATE KEY-----
    MHQCAQEEIPKqMPkRGQxqk+CbCAyqCZ+yThcgF0eg86ud9qbqE0G9oAcGBSuBBAAK
    oUQDQgAEqzeCYP+C0wqwuRg6xUwfT16Ual5DJvlcJaaFs5juC6Pid8wiJUacXb4X
    o1JNin91HQkSXoWuwEbPCwx5PduvNw==
    -----END EC PRIVATE KEY-----
    """

  static let ed448 = """
    -----BEGIN PRIVATE KEY-----
    MEcCAQAwBQYDK2VxBDsEOeA0kNA9t498rvPhIBC9DHTDveaDb9A92yAWglCvfGdO
    6vugFNCF+FoGNjQ69Q/wNcIRdY1gYeQlZg==
    -----END PRIVATE KEY-----
    """

  static let encrypted = """
    -----BEGIN ENCRYPTED PRIVATE KEY-----
    MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAifC7JsaKghVAICCAAw
    DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEMhG1R8qHunaMsm6PRLk48AEQICX
    i5af9kNYGbwsqb/EkiV3qo1EeGLBD9Y7tDibo+QsMTkGeWTsh3jT5ztS2ibHNYke
    DeVIeIPEMUMudcNFMm4=
    -----END ENCRYPTED PRIVATE KEY-----
    """

  static let encryptedTraditional = """
    -----BEGIN EC PRIVATE KEY-----
    Proc-Type: 4,ENCRYPTED
    DEK-Info: AES-128-CBC,742F75CE5871C40183BED9B00DD8D404

    vdgXsfmitHEssqgKNmP9tHyQcCVHa/GTHzKK2q7C4Izdh8qo8a76z3RK9HbKK3g5
    -----END EC PRIVATE KEY-----
    """

  static let publicKey = """
    -----BEGIN PUBLIC KEY-----
    MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
    -----END PUBLIC KEY-----
    """

  /// An RSA key of 2048 bits as a JWK.
  static let rsa: [String: JSON] = [
    "kty": .string("RSA"), "e": .string("AQAB"), "kid": .string("rsa-1"), "alg": .string("PS384"),
    "n": .string(
      "vFTXpiYlZO7ZqE4f6TiXEbgDV1efEhsChPx1XJYsbWywzY_g5P_2keShfbLZ3ZYmDt-DmNYgfgrk57GmO4nQawFdfrrRjGsf1xexRH3qHkUiVS3s"
        + "VQYuiqBL3YQ-SQfUqZFAY_2wRscBeUxeboXusq0-94McIfUSMuWlLYR9ZSSKn6ODl6CcslS4Ytycc8Tb4DVywx2ioeC59s4a6PzUfANfi0Py"
        + "vPMe9bzjpW_2FnUaprrOqzmhlAXZGsN4u-LK-hwhQSEj13g7meWwtQGd0YAdr1f70VHIJa6fqPdVQz6knniOGnVlLOogVBmrkGGRY0fDoQlb"
        + "bEKn7PsZG76hbQ"),
    "d": .string(
      "GHHgvdGkt-miucxOKwzr2uJqGJuoa4ay-IT2TMq3QIrDliLvO3oXzI8DARhGXBMhpHuRjrR4ajPKy2INJBw6v7DhLFJeYZ4D93y9Rxka2sv5bVn1"
        + "G4IeZ2LwBfQky4DnMw1F8NScXUt2XwKxHSJoPavsCN9tNuEi-BVDr9lLF2YCKSAWYfjzyIyC_fQKq71jrPCiagyVcTsiekpkVDRmIh76E0LM"
        + "gdyg_3jCwBisFaaKybqcjhJ1rF1nlzeMw2Rd2OIvTaSWkx3ajcbTfj1OpOaR_ITL4MXjxIjVmhBzaMYZI5E7NsHjsVWKj4qB7L-ee4uLzfxk"
        + "3SMucCozjaM6lw"),
    "p": .string(
      "7KJ6pd6zFcDpRbakhU_PXA96sp3Pi7q2rLX64348qOPIAVvR1RaOMbgWw1oZ4U9WDN8Gsm3QbTgg2yo2x9-kA1gm_9CbiNwhhpfZPdVdTyfN3SE3"
        + "bVF1G-LyeTN45jkDoDXDTHSRrM6iN8t4bM9HqKuGY7xbZnProhdDjHH8zUs"),
    "q": .string(
      "y75npK0bCZ0pMYD8tb7qGJDYJHITlfP7dYDXHDGIrj_54Eb7ymseZ3eWnugd2AmBmb34kSrEUt16yhFg6zcv83U8Z3W7Rcry3OyzOZ3YjhiahqSV"
        + "lS2qXlU5nFPgaFopYmeVWQB0yvmfUkTLZMlFRLopfdJJJPhWrKdtX-rQMSc"),
  ]

  /// RFC 8037 appendix A.1.
  static let okp: [String: JSON] = [
    "kty": .string("OKP"), "crv": .string("Ed25519"), "d": .string("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"),
    "x": .string("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
  ]

  static func jwk(_ members: [String: JSON], _ changes: [String: JSON?] = [:]) -> Secret {
    var members = members
    for (name, value) in changes { members[name] = value }
    return Secret(JSON.object(members).text(sorted: true))
  }

  static func read(_ text: String) throws(SigningKeyError) -> SigningKey {
    try SigningKey.parse(Secret(text), algorithm: nil, kid: "k1")
  }
}
