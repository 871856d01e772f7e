import { createHash, createHmac, pbkdf2, randomBytes } from "node:crypto";
import { promisify } from "node:util";

const ITERATIONS = 4096;

/**
 * A password as PostgreSQL stores it (RFC 5803): enough to check it, not to log in with.
 * https://www.postgresql.org/docs/17/catalog-pg-authid.html
 */
export async function scramVerifier(password: string, salt = randomBytes(16)): Promise<string> {
  const salted = await promisify(pbkdf2)(password.normalize("NFKC"), salt, ITERATIONS, 32, "sha256");
  const hmac = (key: string) => createHmac("sha256", salted).update(key).digest();
  const stored = createHash("sha256").update(hmac("Client Key")).digest("base64");
  const server = hmac("Server Key").toString("base64");
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString("base64")}$${stored}:${server}`;
}
