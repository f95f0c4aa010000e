-- A store as schema version 1 wrote it, sealed under the tests' key. It never changes: such stores are in use.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
INSERT INTO grdb_migrations VALUES('v1');
CREATE TABLE meta (
  name TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;
INSERT INTO meta VALUES('key_check',X'01bc4ee365144b623e3d4c2177c0c05bba1ad5d78542d5a18d9bf787dc8f9fbebbdfa2f8e2cfad');
CREATE TABLE grants (
  account TEXT NOT NULL PRIMARY KEY,
  provider TEXT NOT NULL,
  identity TEXT,
  requested_scopes TEXT NOT NULL,
  granted_scopes TEXT NOT NULL,
  resource TEXT,
  generation INTEGER NOT NULL,
  standing TEXT NOT NULL,
  standing_detail TEXT,
  created_at INTEGER NOT NULL,
  logged_in_at INTEGER NOT NULL,
  refresh_token_expires_at INTEGER,
  refresh_token BLOB,
  previous_refresh_token BLOB,
  id_token BLOB,
  extra BLOB
) STRICT;
INSERT INTO grants VALUES('full','op','{"email":"jane@example.com","issuer":"https://op.example","name":"Jane Doé 😀\u0000x","subject":"248289761001","username":"jane"}','openid https://op.example/auth/mail.read with%20space 100%25 % %2520 nul%00','openid','https://api.example/',9223372036854775807,'good',NULL,-9223372036854775808,0,9223372036854775807,X'01bc4ee365c066fd585f9a68c485ab44e79004e6b26a5deaf81983a15acdfdbf234eaeec821129f3817042c86101148d',X'01bc4ee365d31643c7ab77cfb4523b4a8ffca8c8742a85a38140feccff11937c7dbe209ba659a0820c146f5240e891d888',X'01bc4ee3658a80f085ba9b37a076746a891623a3ddd1261e93fcaae4452446b3338f0f9fa1c3d676625410cbe8fd79',X'01bc4ee365afb9f4d4a90a71549dec8fb03296bb889971d9b8241b87de31a70c7fa7bab1f819f7f5650fd3b9a858b78d9e85073a03f2cb48a023a8');
INSERT INTO grants VALUES('minimal','op',NULL,'','',NULL,1,'good',NULL,1,2,NULL,NULL,NULL,NULL,NULL);
INSERT INTO grants VALUES('failing','op','{"email":"jane@example.com","issuer":"https://op.example","name":"Jane Doé 😀\u0000x","subject":"248289761001","username":"jane"}','openid https://op.example/auth/mail.read with%20space 100%25 % %2520 nul%00','openid','https://api.example/',9223372036854775807,'failing','{"count":7,"failure":{"at":1700000000123,"message":"the provider said \"no\" – ¿por qué?\u0000","oauth":{"error":"invalid_grant","error_description":"Token expired","error_uri":"https://op.example/e"}},"retry_at":99}',-9223372036854775808,0,9223372036854775807,X'01bc4ee3657cced3b6875b86a50957a728d0b43e6b305194fbb58737e5fff66987c82092066c60cef9eb60c14aa632ff591c17',X'01bc4ee3653feaff62e4889766710f0b13c0b29ebcc81a32bd5ccdd0a1444f425cdd7826c0ba4af088b63c92ae026e707b443a99',X'01bc4ee3656b78fb6e1fd11aa9f877fcda134c44fae75f97fb3ceefbefd95fc34654b555b683600b4aa61c98f105524f90eb',X'01bc4ee3654855ccc82cc1da9c1e009f0d5228d9f77f3d368c2bda1025a2f232992ee172c7cf76f80ceaf04267b28d446d2864fa5d384fbe3df231560cfe');
INSERT INTO grants VALUES('login','op','{"email":"jane@example.com","issuer":"https://op.example","name":"Jane Doé 😀\u0000x","subject":"248289761001","username":"jane"}','openid https://op.example/auth/mail.read with%20space 100%25 % %2520 nul%00','openid','https://api.example/',9223372036854775807,'login_required','{"failure":{"at":0,"message":""},"reason":"lost_rotation"}',-9223372036854775808,0,9223372036854775807,X'01bc4ee3653a076e48e92d7a360cfae0594483ca9620887f212795722bb13b9c200598eeb1c877d61b7bb994057d1e26fa',X'01bc4ee365eea7f0d80fd938db25041555843befb3bea6f1a391c1625a2ffae2f3ed4f926cfdf00b4be4cc90dbe2a54e0cd1',X'01bc4ee365ffbccce44a539a848257fa6ed0063e05ed1a6736c0243dc1dc1249b26a9571e09372a314827a279da59d66',X'01bc4ee3654287b5cc329d9b9f75bff304924674496d959f2c45290622e1b75f73adda6b73701f14f4ce731d2796213fd3e4d9b2da344fbdb93f4dfc');
INSERT INTO grants VALUES('config','op','{"email":"jane@example.com","issuer":"https://op.example","name":"Jane Doé 😀\u0000x","subject":"248289761001","username":"jane"}','openid https://op.example/auth/mail.read with%20space 100%25 % %2520 nul%00','openid','https://api.example/',9223372036854775807,'misconfigured','{"failure":{"at":1700000000123,"message":"the provider said \"no\" – ¿por qué?\u0000","oauth":{"error":"invalid_grant","error_description":"Token expired","error_uri":"https://op.example/e"}}}',-9223372036854775808,0,9223372036854775807,X'01bc4ee36582b934d040a4b6372c9fb1bd4f6d8c70fcf5248b027d852a98a033d388efcc726ce238386b8cc765f28913b67d',X'01bc4ee36521d12cfb62c3e2241c639e08af802c9c970c68fb88865e62516ffd332086a4c06db413854b6632ab60ff6510db62',X'01bc4ee36551e47038c670ac35063dfc7132c364dd9ee405b8f5ba3b75b9e98b6761329da15619276ddd5c1a1c233007c0',X'01bc4ee365b3f5767040230cda63d63bbcde0943e80e74e40905ff089256305da777b03bb27caf2c3a28586952f6af494cc9c83281bf29b28ab1454aa6');
CREATE TABLE tokens (
  account TEXT NOT NULL REFERENCES grants (account) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  scope TEXT NOT NULL,
  resource TEXT NOT NULL,
  type TEXT NOT NULL,
  scopes TEXT NOT NULL,
  generation INTEGER NOT NULL,
  issued_at INTEGER NOT NULL,
  expires_at INTEGER,
  refresh_at INTEGER,
  access_token BLOB NOT NULL,
  PRIMARY KEY (account, scope, resource)
) STRICT;
INSERT INTO tokens VALUES('full','','','Bearer','openid',1,10,20,15,X'01bc4ee365e2375f1c4c5516a54c2deefa65e05efadcf21387b8501a7c837dfdb329388a7bcf3c273e03ea1a853435c1bb');
INSERT INTO tokens VALUES('full','a b','https://api.example/','Bearer','openid',1,10,20,15,X'01bc4ee36520b5eefcf7780b9958374332da0d3c91b513bc4d91cc6354eda73b6d83995ed37bedc37c88ef036ca40daa6dd37780bd1dd7c19825b479b53eb370085c259870d484cb');
INSERT INTO tokens VALUES('minimal','','','bearer','',0,0,NULL,NULL,X'01bc4ee365a555e9f4b4f9ed32ddc38318d089d42db5e73aee3a6ee37fbfe72647');
CREATE TABLE refresh_intents (
  account TEXT NOT NULL PRIMARY KEY
    REFERENCES grants (account) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  refresh_token_hash TEXT NOT NULL,
  sent_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL
) STRICT;
INSERT INTO refresh_intents VALUES('full','hash-of-full',9,2);
CREATE TABLE logins (
  id TEXT NOT NULL PRIMARY KEY,
  provider TEXT NOT NULL,
  account TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  scopes TEXT NOT NULL,
  resource TEXT,
  max_age INTEGER,
  uid INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  state BLOB NOT NULL,
  nonce BLOB,
  verifier BLOB
) STRICT;
INSERT INTO logins VALUES('l1','op','jane','http://127.0.0.1:4711/callback','openid email','https://api.example/',3600,4294967295,5,6,X'01bc4ee3653f3e1dbc2cca7ddb63ea6413bf5a09f6d335b9929d72d96a74b5145b4d1e0b7ff615889dbdf60e',X'01bc4ee365d1148648765ae7f54d5d3c511ee83ed2442e9b01c14dadfc523d349ecc61ef013dfff87ac1fd19',X'01bc4ee365da32b6b492dd3929ebe3b8cf7451a3589412361c985c9195caa5fa6841b18f8c6cead8534974ee1f03ae');
INSERT INTO logins VALUES('l2','op','jane','http://127.0.0.1:4711/callback','',NULL,NULL,0,5,6,X'01bc4ee36556b0d40b34e5a9fd1563b2ce196e134de4ee795198b24cc3cb1c23a852e3c0b1a3a3d81599b79a',NULL,NULL);
CREATE TABLE revocations (
  id TEXT NOT NULL PRIMARY KEY,
  provider TEXT NOT NULL,
  hint TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  retry_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  token BLOB NOT NULL
) STRICT;
INSERT INTO revocations VALUES('r1','op','refresh_token',3,7,8,X'01bc4ee365eebce06ff4fdcc344d6f4d9f15a44f6c58417f434ae219f53fb71c98e0552b443685d0304afc8a6e58');
CREATE TABLE settings (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
INSERT INTO settings VALUES('callback_port','4711');
INSERT INTO settings VALUES('empty','');
COMMIT;
PRAGMA application_id = 1735552628;
PRAGMA user_version = 1;
